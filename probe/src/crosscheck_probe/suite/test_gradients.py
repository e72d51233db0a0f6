"""Gradients of every differentiable operator of the OpInfo database against the CPU's."""

from __future__ import annotations

from typing import Any

import torch
from crosscheck_operators import comparable_ops, moved_sample, op_db, quick_op, samples_of
from crosscheck_suite import SuiteCase, cotangents_like, differentiable
from torch.testing._internal.common_device_type import OpDTypes, instantiate_device_type_tests, ops

_SAMPLES = 4
_QUICK = """add addmm bmm cat cumsum div.no_rounding_mode erf exp index_select linalg.inv
log_softmax logsumexp matmul mean mul nn.functional.batch_norm nn.functional.conv2d
nn.functional.gelu nn.functional.layer_norm nn.functional.linear nn.functional.max_pool2d
nn.functional.mse_loss pow prod sigmoid softmax sum tanh where""".split()


def _gradients(op: Any, sample: Any, device: str) -> tuple[Any, ...]:
    inputs = differentiable((sample.input, sample.args, sample.kwargs))
    result = sample.output_process_fn_grad(op(sample.input, *sample.args, **sample.kwargs))
    outputs = differentiable(result)
    cotangents = [c.to(device) for c in cotangents_like(outputs)]
    return torch.autograd.grad(outputs, inputs, cotangents, allow_unused=True)


class TestGradients(SuiteCase):
    @quick_op(torch.float32, ops=_QUICK)
    @ops(
        [op for op in comparable_ops(op_db) if op.supports_autograd],
        dtypes=OpDTypes.supported_backward,
        allowed_dtypes=(torch.float32, torch.complex64),
    )
    def test_backward(self, device: str, dtype: torch.dtype, op: Any) -> None:
        tried = 0
        for number, sample in enumerate(samples_of(op, dtype, _SAMPLES, requires_grad=True)):
            on_device = moved_sample(sample, device)
            if not differentiable((sample.input, sample.args, sample.kwargs)):
                continue
            expected = _gradients(op, sample, "cpu")
            actual = _gradients(op, on_device, device)
            context = f"sample {number} of {op.full_name}: {sample.summary()}"
            self.assert_agrees(actual, expected, device, context)
            tried += 1
        if tried == 0:
            self.skipTest(f"{op.full_name} has no differentiable samples for {dtype}")


instantiate_device_type_tests(TestGradients, globals())
