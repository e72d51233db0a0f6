"""What the files of the bundled suite share: how a device's results are held against the CPU's."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch.testing._internal.common_utils import TestCase
from torch.utils._pytree import tree_flatten, tree_map

from crosscheck_probe.marks import quick

__all__ = ["SuiteCase", "cotangents_like", "differentiable", "moved", "quick"]

# Two results may differ by atol + rtol × expected: a device may add in another order.
_TOLERANCES = {
    torch.float32: (1e-4, 1e-4),
    torch.complex64: (1e-4, 1e-4),
    torch.float64: (1e-7, 1e-7),
    torch.complex128: (1e-7, 1e-7),
    torch.bfloat16: (2e-2, 4e-2),
    torch.float16: (5e-3, 5e-3),
}


def moved(value: Any, device: str) -> Any:
    """Returns a copy of `value` with every tensor in it on `device`."""

    def move(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return leaf
        copied = leaf.detach().to(device, copy=True)
        return copied.requires_grad_(leaf.requires_grad)

    return tree_map(move, value)


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
