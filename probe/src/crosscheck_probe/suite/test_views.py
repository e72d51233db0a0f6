"""Views and indexing: values, strides, and that a view shares its base's memory."""

from __future__ import annotations

from typing import Any

import torch
from crosscheck_suite import SuiteCase, quick
from torch.testing._internal.common_device_type import dtypes, instantiate_device_type_tests
from torch.testing._internal.common_utils import parametrize

_DTYPES = (torch.float32, torch.int64, torch.bool, torch.complex64)

_VIEWS: dict[str, Any] = {
    "alias": lambda t: t[...],
    "as_strided": lambda t: t.as_strided((2, 3), (12, 2), 1),
    "chunk": lambda t: t.chunk(2, 1)[1],
    "detach": lambda t: t.detach(),
    "diagonal": lambda t: t.diagonal(0, 1, 2),
    "expand": lambda t: t[:1].expand(3, 3, 4),
    "flatten": lambda t: t.flatten(1),
    "movedim": lambda t: t.movedim(0, 2),
    "narrow": lambda t: t.narrow(2, 1, 2),
    "permute": lambda t: t.permute(2, 0, 1),
    "select": lambda t: t.select(1, 1),
    "slice": lambda t: t[:, 1:],
    "slice_step": lambda t: t[:, :, ::2],
    "split": lambda t: t.split(1, 0)[1],
    "squeeze": lambda t: t[:1].squeeze(0),
    "swapaxes": lambda t: t.swapaxes(0, 1),
    "t": lambda t: t[0].t(),
    "tensor_split": lambda t: t.tensor_split(2, 2)[0],
    "transpose": lambda t: t.transpose(0, 2),
    "unbind": lambda t: t.unbind(1)[2],
    "unflatten": lambda t: t.unflatten(2, (2, 2)),
    "unfold": lambda t: t.unfold(2, 2, 2),
    "unsqueeze": lambda t: t.unsqueeze(1),
    "view": lambda t: t.view(6, 4),
    "view_as": lambda t: t.view_as(torch.empty(4, 6, device="meta")),
}

_INDICES: dict[str, Any] = {
    "integer": lambda d: (1,),
    "negative": lambda d: (-1, 0),
    "slice": lambda d: (slice(0, 1), slice(1, None)),
    "ellipsis": lambda d: (Ellipsis, 2),
    "none": lambda d: (slice(None), None, 1),
    "mask": lambda d: (torch.tensor([True, False], device=d),),
    "mask_2d": lambda d: (torch.tensor([[True, False, True], [False, True, False]], device=d),),
    "list": lambda d: ([1, 0, 1],),
    "tensor": lambda d: (torch.tensor([1, 0, 1], device=d),),
    "tensor_2d": lambda d: (torch.tensor([[0, 1], [1, 0]], device=d),),
    "two_tensors": lambda d: (torch.tensor([0, 1], device=d), torch.tensor([2, 0], device=d)),
    "apart": lambda d: (
        torch.tensor([0, 1], device=d),
        slice(None),
        torch.tensor([3, 0], device=d),
    ),
    "negative_tensor": lambda d: (slice(None), torch.tensor([-1, -3], device=d)),
    "empty_tensor": lambda d: (torch.empty(0, dtype=torch.int64, device=d),),
}


def _base(dtype: torch.dtype) -> torch.Tensor:
    values = torch.arange(24).reshape(2, 3, 4)
    return values % 3 == 0 if dtype is torch.bool else values.to(dtype)


def _flipped(tensor: torch.Tensor) -> torch.Tensor:
    return ~tensor if tensor.dtype is torch.bool else tensor + 100


class TestViews(SuiteCase):
    @quick(lambda dtype, view: dtype in (torch.float32, torch.int64) and view < "n")
    @dtypes(*_DTYPES)
    @parametrize("view", sorted(_VIEWS))
    def test_values(self, device: str, dtype: torch.dtype, view: str) -> None:
        base = _base(dtype)
        expected = _VIEWS[view](base)
        actual = _VIEWS[view](base.to(device))
        self.assertEqual(actual.stride(), expected.stride())
        self.assertEqual(actual.storage_offset(), expected.storage_offset())
        self.assert_agrees(actual, expected, device)

    @dtypes(*_DTYPES)
    @parametrize("view", sorted(set(_VIEWS) - {"expand"}))
    def test_writes_reach_base(self, device: str, dtype: torch.dtype, view: str) -> None:
        base = _base(dtype)
        on_device = base.to(device, copy=True)
        expected = _VIEWS[view](base)
        actual = _VIEWS[view](on_device)
        new = _flipped(expected)
        expected.copy_(new)
        actual.copy_(new.to(device))
        self.assert_agrees(on_device, base, device)

    @dtypes(*_DTYPES)
    @parametrize("view", sorted(_VIEWS))
    def test_base_writes_show(self, device: str, dtype: torch.dtype, view: str) -> None:
        base = _base(dtype)
        on_device = base.to(device, copy=True)
        expected = _VIEWS[view](base)
        actual = _VIEWS[view](on_device)
        new = _flipped(base)
        base.copy_(new)
        on_device.copy_(new.to(device))
        self.assert_agrees(actual, expected, device)

    @dtypes(*_DTYPES)
    @parametrize("view", sorted(_VIEWS))
    def test_contiguous(self, device: str, dtype: torch.dtype, view: str) -> None:
        expected = _VIEWS[view](_base(dtype)).contiguous()
        actual = _VIEWS[view](_base(dtype).to(device)).contiguous()
        self.assertTrue(actual.is_contiguous())
        self.assert_agrees(actual, expected, device)

    @dtypes(torch.complex64)
    def test_complex_parts(self, device: str, dtype: torch.dtype) -> None:
        base = _base(dtype) * (1 + 2j)
        on_device = base.to(device, copy=True)
        self.assert_agrees(torch.view_as_real(on_device), torch.view_as_real(base), device)
        self.assert_agrees(on_device.real, base.real, device)
        self.assert_agrees(on_device.imag, base.imag, device)
        self.assert_agrees(on_device.conj().imag, base.conj().imag, device)
        self.assert_agrees(torch.view_as_complex(torch.view_as_real(on_device)), base, device)

    @parametrize("to", (torch.int32, torch.float32, torch.uint8, torch.int16))
    def test_view_as_dtype(self, device: str, to: torch.dtype) -> None:
        base = _base(torch.float32)
        self.assert_agrees(base.to(device).view(to), base.view(to), device)

    def test_set_shares_storage(self, device: str) -> None:
        base = _base(torch.float32).to(device)
        other = torch.empty(0, device=device)
        other.set_(base)
        self.assertTrue(other.is_set_to(base))
        base.zero_()
        self.assert_agrees(other, torch.zeros(2, 3, 4), device)

    @parametrize("size", ((2,), (3, 5), (0,), (4, 4, 4)))
    def test_resize(self, device: str, size: tuple[int, ...]) -> None:
        base = torch.arange(6.0)
        on_device = base.to(device, copy=True)
        on_device.resize_(size)
        self.assertEqual(tuple(on_device.shape), size)
        kept = min(on_device.numel(), 6)
        self.assert_agrees(on_device.flatten()[:kept], base[:kept], device)


class TestIndexing(SuiteCase):
    @quick(lambda dtype, index: dtype is torch.float32)
    @dtypes(*_DTYPES)
    @parametrize("index", sorted(_INDICES))
    def test_get(self, device: str, dtype: torch.dtype, index: str) -> None:
        base = _base(dtype)
        expected = base[_INDICES[index]("cpu")]
        self.assert_agrees(base.to(device)[_INDICES[index](device)], expected, device)

    @dtypes(*_DTYPES)
    @parametrize("index", sorted(_INDICES))
    def test_set_scalar(self, device: str, dtype: torch.dtype, index: str) -> None:
        base, on_device = _base(dtype), _base(dtype).to(device)
        base[_INDICES[index]("cpu")] = 1
        on_device[_INDICES[index](device)] = 1
        self.assert_agrees(on_device, base, device)

    @dtypes(*_DTYPES)
    @parametrize("index", sorted(set(_INDICES) - {"list", "tensor", "tensor_2d"}))
    def test_set_tensor(self, device: str, dtype: torch.dtype, index: str) -> None:
        base, on_device = _base(dtype), _base(dtype).to(device)
        new = _flipped(base[_INDICES[index]("cpu")])
        base[_INDICES[index]("cpu")] = new
        on_device[_INDICES[index](device)] = new.to(device)
        self.assert_agrees(on_device, base, device)

    @dtypes(torch.float32, torch.int64)
    @parametrize("accumulate", (False, True))
    def test_index_put(self, device: str, dtype: torch.dtype, accumulate: bool) -> None:
        base, on_device = _base(dtype), _base(dtype).to(device)
        rows = torch.tensor([1, 0] if not accumulate else [1, 1])
        new = torch.ones(2, 3, 4, dtype=dtype)
        base.index_put_((rows,), new, accumulate=accumulate)
        on_device.index_put_((rows.to(device),), new.to(device), accumulate=accumulate)
        self.assert_agrees(on_device, base, device)

    def test_out_of_range(self, device: str) -> None:
        with self.assertRaises(IndexError):
            torch.zeros(3, device=device)[3]


instantiate_device_type_tests(TestViews, globals())
instantiate_device_type_tests(TestIndexing, globals())
