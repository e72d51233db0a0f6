"""Other ways to call an operator: in place, into `out=`, on strided inputs, as a method."""

from __future__ import annotations

from typing import Any

import torch
from crosscheck_operators import comparable_ops, is_up_to_gauge, moved_sample, samples_of
from crosscheck_suite import SuiteCase
from torch.testing._internal.common_device_type import OpDTypes, instantiate_device_type_tests, ops
from torch.utils._pytree import tree_map

# Their `out` takes something else than their result, or what they write there is wrong on the CPU.
_NO_PLAIN_OUT = ("_batch_norm_with_update", "fft.ihfft2", "fft.ihfftn", "histogramdd")

# What they compute, or whether they do, depends on their input's strides.
_NEEDS_LAYOUT = frozenset(
    ("as_strided", "as_strided_copy", "as_strided_scatter", "native_group_norm", "view_as_complex")
)


def _strided(value: Any) -> Any:
    """Returns `value` with every tensor spread over every second element of a larger one."""

    def spread(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor) or leaf.dim() == 0 or leaf.layout != torch.strided:
            return leaf
        room = leaf.new_empty((*leaf.shape[:-1], leaf.shape[-1] * 2))
        return room[..., ::2].copy_(leaf)

    return tree_map(spread, value)


class TestOperatorForms(SuiteCase):
    @ops(
        [op for op in comparable_ops() if op.inplace_variant is not None],
        allowed_dtypes=(torch.float32,),
    )
    def test_in_place(self, device: str, dtype: torch.dtype, op: Any) -> None:
        tried = 0
        for sample in samples_of(op, dtype):
            if sample.broadcasts_input or not isinstance(sample.input, torch.Tensor):
                continue
            on_device = moved_sample(sample, device)
            expected = op(sample.input, *sample.args, **sample.kwargs)
            if not isinstance(expected, torch.Tensor) or expected.dtype != sample.input.dtype:
                continue
            target = on_device.input
            result = op.inplace_variant(target, *on_device.args, **on_device.kwargs)
            self.assertIs(result, target)
            self.assert_agrees(target, expected, device, f"{op.full_name}: {sample.summary()}")
            tried += 1
        if tried == 0:
            self.skipTest(f"no sample of {op.full_name} can be written in place")

    @ops(
        [op for op in comparable_ops() if op.supports_out and not op.name.endswith(_NO_PLAIN_OUT)],
        allowed_dtypes=(torch.float32,),
    )
    def test_out(self, device: str, dtype: torch.dtype, op: Any) -> None:
        tried = 0
        for sample in samples_of(op, dtype):
            on_device = moved_sample(sample, device)
            expected = op(sample.input, *sample.args, **sample.kwargs)
            if isinstance(expected, torch.Tensor):
                out: Any = torch.empty_like(expected, device=device)
            elif isinstance(expected, tuple) and not sample.kwargs.get("as_tuple"):
                out = tuple(torch.empty_like(e, device=device) for e in expected)
            else:
                continue
            op(on_device.input, *on_device.args, **on_device.kwargs, out=out)
            context = f"{op.full_name}: {sample.summary()}"
            self.assert_agrees(
                out, expected if torch.is_tensor(expected) else tuple(expected), device, context
            )
            tried += 1
        if tried == 0:
            self.skipTest(f"no sample of {op.full_name} has a result to write into")

    @ops([op for op in comparable_ops() if op.name not in _NEEDS_LAYOUT], dtypes=OpDTypes.any_one)
    def test_strided_inputs(self, device: str, dtype: torch.dtype, op: Any) -> None:
        tried = 0
        for sample in samples_of(op, dtype, 4):
            if not isinstance(sample.input, torch.Tensor) or sample.input.dim() == 0:
                continue
            on_device = moved_sample(sample, device)
            spread = _strided(on_device.input)
            args, kwargs = _strided(list(on_device.args)), _strided(on_device.kwargs)
            expected = op(sample.input, *sample.args, **sample.kwargs)
            actual = op(spread, *args, **kwargs)
            if is_up_to_gauge(op):
                expected = sample.output_process_fn_grad(expected)
                actual = sample.output_process_fn_grad(actual)
            self.assert_agrees(actual, expected, device, f"{op.full_name}: {sample.summary()}")
            tried += 1
        if tried == 0:
            self.skipTest(f"no sample of {op.full_name} can be spread")


instantiate_device_type_tests(TestOperatorForms, globals())
