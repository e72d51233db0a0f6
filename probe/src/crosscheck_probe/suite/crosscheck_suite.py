"""What the files of the bundled suite share: how a device's results are held against the CPU's."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.common_utils import TestCase
from torch.testing._internal.opinfo.core import OpInfo, SampleInput
from torch.utils._pytree import tree_flatten, tree_map

from crosscheck_probe.marks import quick

__all__ = [
    "QUICK_OPS",
    "SAMPLES",
    "SuiteCase",
    "comparable_ops",
    "cotangents_like",
    "differentiable",
    "moved",
    "op_db",
    "quick",
    "quick_op",
    "samples_of",
]

# Samples of an operator that one test tries.
SAMPLES = 8

# Two results may differ by atol + rtol × expected: a device may add in another order.
_TOLERANCES = {
    torch.float32: (1e-4, 1e-4),
    torch.complex64: (1e-4, 1e-4),
    torch.float64: (1e-7, 1e-7),
    torch.complex128: (1e-7, 1e-7),
    torch.bfloat16: (2e-2, 2e-2),
    torch.float16: (5e-3, 5e-3),
}

# Results that no two devices need share: drawn at random, or memory that holds anything.
_UNCOMPARABLE = frozenset(
    """as_strided.partial_views bernoulli cauchy empty empty_like empty_permuted empty_strided
    exponential geometric log_normal multinomial new_empty new_empty_strided
    nn.functional.alpha_dropout nn.functional.dropout nn.functional.dropout2d
    nn.functional.dropout3d nn.functional.feature_alpha_dropout
    nn.functional.fractional_max_pool2d nn.functional.fractional_max_pool3d
    nn.functional.multi_head_attention_forward nn.functional.rrelu
    nn.functional.scaled_dot_product_attention normal normal_in_place pca_lowrank
    rand_like randint randint_like randn randn_like svd_lowrank
    torch.ops.aten._efficient_attention_forward torch.ops.aten._flash_attention_forward
    uniform""".split()
)

# Factors that are unique only up to a sign, a phase or an order; compared as their OpInfo says.
_UP_TO_GAUGE = ("eig", "eigh", "svd", "qr", "geqrf", "lu", "lobpcg")

# One of each kind. On a young backend some of them are missing, which is the point.
QUICK_OPS = frozenset(
    """abs add addmm all amax any argmax atan2 baddbmm bitwise_and bmm cat ceil clamp clone copysign
    cos cumprod cumsum diagonal digamma div.no_rounding_mode dot einsum eq erf exp expand fft.fft
    fill flatten flip floor fmod full gather gather_default ge gt hypot index_select isfinite
    kthvalue le lerp linalg.cholesky linalg.det linalg.inv linalg.norm linalg.vector_norm log
    log_softmax logaddexp logical_and logsumexp lt masked_fill masked_select matmul max.binary
    maximum mean min.binary mm movedim mul mv narrow ne neg nn.functional.avg_pool2d
    nn.functional.batch_norm nn.functional.conv2d nn.functional.cross_entropy
    nn.functional.embedding nn.functional.gelu nn.functional.grid_sample
    nn.functional.interpolate nn.functional.layer_norm nn.functional.linear
    nn.functional.max_pool2d nn.functional.mse_loss nn.functional.pad nn.functional.relu
    nn.functional.silu nn.functional.softplus nonzero permute pow prod reciprocal remainder repeat
    reshape roll rsqrt scatter scatter_add select sigmoid sign sin slice softmax sort split sqrt
    square squeeze stack std sub sum t tanh tile topk transpose tril triu unbind unique unsqueeze
    var view where zeros_like""".split()
)


def quick_op(*dtypes: torch.dtype, ops: Iterable[str] = QUICK_OPS) -> Any:
    """Puts a test over OpInfo into the quick set for the representative operators."""
    chosen = frozenset(ops)
    return quick(lambda op, dtype: op.full_name in chosen and dtype in dtypes)


def comparable_ops(ops: Sequence[OpInfo] = tuple(op_db)) -> list[OpInfo]:
    """Returns the operators whose results two devices must agree on."""
    return [op for op in ops if not _UNCOMPARABLE & {op.name, op.full_name}]


def samples_of(
    op: OpInfo, dtype: torch.dtype, count: int = SAMPLES, requires_grad: bool = False
) -> Iterator[SampleInput]:
    """Yields the operator's first samples, made on the CPU."""
    return itertools.islice(op.sample_inputs("cpu", dtype, requires_grad=requires_grad), count)


def moved(value: Any, device: str) -> Any:
    """Returns a copy of `value` on `device`: tensors, and samples with their `device` argument."""

    def move(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return leaf
        copied = leaf.detach().to(device, copy=True)
        return copied.requires_grad_(leaf.requires_grad)

    if not isinstance(value, SampleInput):
        return tree_map(move, value)
    kwargs = dict(value.kwargs)
    if "device" in kwargs:
        kwargs["device"] = device
    return SampleInput(
        moved(value.input, device),
        args=tuple(moved(list(value.args), device)),
        kwargs=moved(kwargs, device),
        output_process_fn_grad=value.output_process_fn_grad,
        name=value.name,
    )


def differentiable(value: Any) -> list[torch.Tensor]:
    """Returns the tensors in `value` that gradients flow through."""
    leaves = tree_flatten(value)[0]
    return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor) and leaf.requires_grad]


def cotangents_like(tensors: Iterable[torch.Tensor]) -> list[torch.Tensor]:
    """Returns for each tensor a CPU tensor of its shape, uneven so that errors do not cancel."""
    made = []
    for tensor in tensors:
        flat = torch.linspace(0.5, 1.5, max(tensor.numel(), 1), dtype=torch.float64)
        made.append(flat[: tensor.numel()].reshape(tensor.shape).to(tensor.dtype))
    return made


class SuiteCase(TestCase):
    """Compares what a device computed with what the CPU did."""

    def assert_agrees(self, actual: Any, expected: Any, device: str, context: str = "") -> None:
        """Fails unless `actual` lies on `device` and equals `expected`, which lies on the CPU."""
        kind = torch.device(device).type

        def fetch(leaf: Any) -> Any:
            if not isinstance(leaf, torch.Tensor):
                return leaf
            self.assertEqual(leaf.device.type, kind, msg="the result is on another device")
            return leaf.detach().cpu()

        dtype = next(
            (t.dtype for t in tree_flatten(expected)[0] if isinstance(t, torch.Tensor)), None
        )
        rtol, atol = _TOLERANCES.get(dtype, (None, None)) if dtype is not None else (None, None)
        self.assertEqual(
            tree_map(fetch, actual),
            tree_map(lambda t: t.detach() if isinstance(t, torch.Tensor) else t, expected),
            rtol=rtol,
            atol=atol,
            equal_nan=True,
            msg=context or None,
        )

    def assert_op_agrees(self, call: Any, op: OpInfo, dtype: torch.dtype, device: str) -> None:
        """Calls `call(sample)` for samples on the CPU and on the device and compares."""
        tried = 0
        for number, sample in enumerate(samples_of(op, dtype)):
            on_device = moved(sample, device)
            context = f"sample {number} of {op.full_name}: {sample.summary()}"
            expected = call(sample)
            actual = call(on_device)
            if op.name.split(".")[-1].startswith(_UP_TO_GAUGE):
                expected = sample.output_process_fn_grad(expected)
                actual = sample.output_process_fn_grad(actual)
            self.assert_agrees(actual, expected, device, context)
            tried += 1
        if tried == 0:
            self.skipTest(f"{op.full_name} has no samples for {dtype}")
