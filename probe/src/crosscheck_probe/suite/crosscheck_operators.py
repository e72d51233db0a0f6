"""What the files of the bundled suite over the OpInfo database share."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch
from crosscheck_suite import SuiteCase, moved
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.opinfo.core import OpInfo, SampleInput

from crosscheck_probe.marks import quick

__all__ = [
    "OperatorCase",
    "comparable_ops",
    "is_up_to_gauge",
    "moved_sample",
    "op_db",
    "quick_op",
    "samples_of",
]

# Samples of an operator that one test tries.
SAMPLES = 8

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
    # op.sample_inputs() seeds every device's generators before each sample, which takes longer
    # than most operators; one seed a test, as the harness sets it, serves as well.
    made = iter(op.sample_inputs_func(op, "cpu", dtype, requires_grad))
    if op.name == "tensor_split":
        # Its sections, where they are a tensor, lie on the CPU for every device.
        made = (s for s in made if not any(isinstance(a, torch.Tensor) for a in s.args))
    return itertools.islice(made, count)


def is_up_to_gauge(op: OpInfo) -> bool:
    """Says whether two devices may differ where `output_process_fn_grad` makes them agree."""
    return op.name.split(".")[-1].startswith(_UP_TO_GAUGE)


def moved_sample(sample: SampleInput, device: str) -> SampleInput:
    """Returns a copy of the sample whose tensors, and `device` argument, are on `device`."""
    kwargs = dict(sample.kwargs)
    if "device" in kwargs:
        kwargs["device"] = device
    return SampleInput(
        moved(sample.input, device),
        args=tuple(moved(list(sample.args), device)),
        kwargs=moved(kwargs, device),
        output_process_fn_grad=sample.output_process_fn_grad,
        name=sample.name,
    )


class OperatorCase(SuiteCase):
    """Calls an operator on the CPU and on the device."""

    def assert_op_agrees(self, call: Any, op: OpInfo, dtype: torch.dtype, device: str) -> None:
        """Calls `call(sample)` for samples on the CPU and on the device and compares."""
        tried = 0
        for number, sample in enumerate(samples_of(op, dtype)):
            on_device = moved_sample(sample, device)
            context = f"sample {number} of {op.full_name}: {sample.summary()}"
            expected = call(sample)
            actual = call(on_device)
            if is_up_to_gauge(op):
                expected = sample.output_process_fn_grad(expected)
                actual = sample.output_process_fn_grad(actual)
            self.assert_agrees(actual, expected, device, context)
            tried += 1
        if tried == 0:
            self.skipTest(f"{op.full_name} has no samples for {dtype}")
