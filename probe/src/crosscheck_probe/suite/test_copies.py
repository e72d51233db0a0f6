"""Copies between dtypes, devices and layouts; factories; scalars."""

from __future__ import annotations

from typing import Any

import torch
from crosscheck_suite import SuiteCase, quick
from torch.testing._internal.common_device_type import dtypes, instantiate_device_type_tests
from torch.testing._internal.common_utils import parametrize

_ALL = (
    torch.float32,
    torch.float16,
    torch.bfloat16,
    torch.int64,
    torch.int32,
    torch.uint8,
    torch.bool,
    torch.complex64,
)

_LAYOUTS: dict[str, Any] = {
    "contiguous": lambda t: t,
    "transposed": lambda t: t.t().contiguous().t(),
    "strided": lambda t: torch.stack([t, t], -1).flatten(1)[:, ::2],
    "expanded": lambda t: t[:, :1].expand(t.shape),
    "empty": lambda t: t[:, :0],
}

_FACTORIES: dict[str, Any] = {
    "arange": lambda **k: torch.arange(1, 9, 2, **k),
    "empty_strided": lambda **k: torch.empty_strided((2, 3), (1, 2), **k).fill_(1),
    "eye": lambda **k: torch.eye(3, 4, **k),
    "full": lambda **k: torch.full((2, 3), 1, **k),
    "full_like": lambda **k: torch.full_like(torch.empty(3, **k), 1),
    "linspace": lambda **k: torch.linspace(0, 8, 5, **k),
    "new_full": lambda **k: torch.empty(2, **k).new_full((3,), 1),
    "new_ones": lambda **k: torch.empty(2, **k).new_ones(3),
    "new_tensor": lambda **k: torch.empty(2, **k).new_tensor([0, 1, 1]),
    "new_zeros": lambda **k: torch.empty(2, **k).new_zeros(3),
    "ones": lambda **k: torch.ones(2, 3, **k),
    "ones_like": lambda **k: torch.ones_like(torch.empty(3, **k)),
    "scalar_tensor": lambda **k: torch.scalar_tensor(1, **k),
    "tensor": lambda **k: torch.tensor([[0, 1], [1, 0]], **k),
    "zeros": lambda **k: torch.zeros(2, 3, **k),
    "zeros_like": lambda **k: torch.zeros_like(torch.empty(3, **k)),
}


def _values(dtype: torch.dtype) -> torch.Tensor:
    return torch.tensor([[0, 1, 2, 3], [4, 5, 0, 7]]).to(dtype)


class TestCopies(SuiteCase):
    @quick(lambda dtype, to, way: dtype is torch.float32 and to in _ALL[:4])
    @dtypes(*_ALL)
    @parametrize("to", _ALL)
    @parametrize("way", ("in", "out", "within"))
    def test_converts(self, device: str, dtype: torch.dtype, to: torch.dtype, way: str) -> None:
        source = _values(dtype)
        expected = torch.empty(2, 4, dtype=to).copy_(source)
        if way == "in":
            actual = torch.empty(2, 4, dtype=to, device=device).copy_(source)
        elif way == "out":
            actual = torch.empty(2, 4, dtype=to).copy_(source.to(device))
            self.assertEqual(actual, expected)
            return
        else:
            actual = torch.empty(2, 4, dtype=to, device=device).copy_(source.to(device))
        self.assert_agrees(actual, expected, device)

    @dtypes(torch.float32, torch.int64, torch.complex64)
    @parametrize("source", sorted(_LAYOUTS))
    @parametrize("target", sorted(set(_LAYOUTS) - {"expanded", "empty"}))
    def test_layouts(self, device: str, dtype: torch.dtype, source: str, target: str) -> None:
        of = _LAYOUTS[source](_values(dtype))
        into = _LAYOUTS[target](torch.zeros(of.shape, dtype=dtype))
        on_device = _LAYOUTS[target](torch.zeros(of.shape, dtype=dtype, device=device))
        self.assert_agrees(
            on_device.copy_(_LAYOUTS[source](_values(dtype).to(device))), into.copy_(of), device
        )

    @dtypes(torch.float32, torch.int64)
    @parametrize("layout", sorted(_LAYOUTS))
    def test_round_trip_keeps_strides(self, device: str, dtype: torch.dtype, layout: str) -> None:
        tensor = _LAYOUTS[layout](_values(dtype))
        there = tensor.to(device, copy=True)
        self.assertEqual(there.stride(), tensor.to("cpu", copy=True).stride())
        self.assertEqual(there.cpu(), tensor)

    @dtypes(*_ALL)
    def test_broadcasts(self, device: str, dtype: torch.dtype) -> None:
        expected = torch.empty(3, 4, dtype=dtype).copy_(_values(dtype)[0])
        actual = torch.empty(3, 4, dtype=dtype, device=device).copy_(_values(dtype)[0].to(device))
        self.assert_agrees(actual, expected, device)

    @dtypes(*_ALL)
    def test_item(self, device: str, dtype: torch.dtype) -> None:
        self.assertEqual(_values(dtype).to(device)[1, 1].item(), _values(dtype)[1, 1].item())
        self.assertEqual(_values(dtype).to(device).tolist(), _values(dtype).tolist())

    @dtypes(*_ALL)
    def test_clone(self, device: str, dtype: torch.dtype) -> None:
        tensor = _values(dtype).to(device)
        cloned = tensor.clone()
        tensor.zero_()
        self.assert_agrees(cloned, _values(dtype), device)

    @parametrize("format", (torch.channels_last, torch.contiguous_format))
    def test_memory_format(self, device: str, format: torch.memory_format) -> None:
        tensor = torch.arange(48.0).reshape(2, 2, 3, 4)
        actual = tensor.to(device).to(memory_format=format)
        self.assertTrue(actual.is_contiguous(memory_format=format))
        self.assert_agrees(actual, tensor.to(memory_format=format), device)

    def test_does_not_copy_onto_itself(self, device: str) -> None:
        tensor = torch.ones(3, device=device)
        self.assertIs(tensor.to(device), tensor)
        self.assertEqual(tensor.to(device, copy=True).data_ptr() == tensor.data_ptr(), False)


class TestFactories(SuiteCase):
    @quick(lambda dtype, factory: dtype is torch.float32)
    @dtypes(*_ALL)
    @parametrize("factory", sorted(_FACTORIES))
    def test_makes(self, device: str, dtype: torch.dtype, factory: str) -> None:
        try:
            expected = _FACTORIES[factory](dtype=dtype, device="cpu")
        except (RuntimeError, TypeError) as error:
            self.skipTest(f"the CPU has no {factory} for {dtype}: {error}")
        self.assert_agrees(_FACTORIES[factory](dtype=dtype, device=device), expected, device)

    @parametrize("factory", sorted(_FACTORIES))
    def test_default_device(self, device: str, factory: str) -> None:
        with torch.device(device):
            actual = _FACTORIES[factory](dtype=torch.float32)
        expected = _FACTORIES[factory](dtype=torch.float32, device="cpu")
        self.assert_agrees(actual, expected, device)

    def test_rejects_negative_sizes(self, device: str) -> None:
        with self.assertRaisesRegex(RuntimeError, "negative dimension"):
            torch.empty(-1, device=device)


class TestRandom(SuiteCase):
    @parametrize("draw", ("rand", "randn", "uniform_", "normal_", "bernoulli_", "random_"))
    def test_seed_repeats(self, device: str, draw: str) -> None:
        def numbers() -> torch.Tensor:
            torch.manual_seed(7)
            if draw.endswith("_"):
                return getattr(torch.empty(64, device=device), draw)()
            return getattr(torch, draw)(64, device=device)

        first = numbers().cpu()
        self.assertEqual(numbers().cpu(), first)
        self.assertGreater(len(first.unique()), 1)

    def test_generator_repeats(self, device: str) -> None:
        first = torch.Generator(device=device).manual_seed(3)
        second = torch.Generator(device=device).manual_seed(3)
        a = torch.rand(16, device=device, generator=first)
        self.assertEqual(a.cpu(), torch.rand(16, device=device, generator=second).cpu())

    def test_uniform_range(self, device: str) -> None:
        drawn = torch.empty(4096, device=device).uniform_(2, 3).cpu()
        self.assertTrue(bool(((drawn >= 2) & (drawn <= 3)).all()))
        self.assertLess(abs(float(drawn.mean()) - 2.5), 0.05)

    def test_normal_moments(self, device: str) -> None:
        drawn = torch.empty(8192, device=device).normal_(1, 2).cpu()
        self.assertLess(abs(float(drawn.mean()) - 1), 0.15)
        self.assertLess(abs(float(drawn.std()) - 2), 0.15)

    def test_permutation(self, device: str) -> None:
        drawn = torch.randperm(50, device=device).cpu()
        self.assertEqual(drawn.sort().values, torch.arange(50))

    @parametrize("p", (0.0, 0.5, 1.0))
    def test_dropout_keeps_its_share(self, device: str, p: float) -> None:
        kept = torch.nn.functional.dropout(torch.ones(4096, device=device), p).cpu().ne(0)
        self.assertLess(abs(float(kept.float().mean()) - (1 - p)), 0.06)


instantiate_device_type_tests(TestCopies, globals())
instantiate_device_type_tests(TestFactories, globals())
instantiate_device_type_tests(TestRandom, globals())
