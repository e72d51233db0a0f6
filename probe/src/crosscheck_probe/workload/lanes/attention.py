"""Attention by SDPA and by FlexAttention, on the same numbers and the same masks."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import torch

from crosscheck_probe.workload.base import NotRun, Settings, Workload, uniform
from crosscheck_probe.workload.launch import has_compiled
from crosscheck_probe.workload.measure import operators_of

# (query's position, key's position) to whether the one sees the other; also on tensors.
Sees = Callable[[Any, Any], Any]

_REFERENCE_ROWS = 256


def make(name: str, settings: Settings) -> Workload:
    kind, case = name.split("_", 1)
    return {"sdpa": Sdpa, "flex": Flex}[kind](case, settings)


def _sees(case: str, shape: dict[str, int]) -> Sees:
    if case == "sliding_window":
        window = shape["window"]
        return lambda q, k: (q >= k) & (q - k < window)
    if case == "block_sparse":
        block = shape["block"]
        return lambda q, k: (q // block == k // block) | ((k // block) % 4 == 0)
    return lambda q, k: q >= k


class Attention(Workload):
    """Query, key and value of equal shape; where it trains, a fixed gradient goes backward."""

    def __init__(self, case: str, settings: Settings) -> None:
        self.settings = settings
        self.case = case
        self.sees = _sees(case, settings.shape)
        self.items = settings.shape["batch"] * settings.shape["sequence"]

    def attend(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        raise NotImplementedError

    def prepare(self) -> None:
        """Makes the mask and what else is made once."""

    def setup(self) -> None:
        settings = self.settings
        if not hasattr(self, "inputs"):
            self.inputs = [x.to(settings.device) for x in self._values()]
            self.prepare()
        for one in self.inputs[:3]:
            one.grad = None
            one.requires_grad_(settings.training)

    def inference(self) -> Any:
        with torch.no_grad():
            return self._run()

    def step(self) -> Any:
        for one in self.inputs[:3]:
            one.grad = None
        output = self._run()
        output.backward(self.inputs[3].to(output.dtype))
        return output.detach()

    def gradients(self) -> dict[str, Any] | None:
        return {name: one.grad for name, one in zip("qkv", self.inputs)}

    def reference(self) -> tuple[Any, dict[str, Any] | None]:
        q, k, v, above = (x.double() for x in self._values())
        output, scale = torch.empty_like(q), q.shape[-1] ** -0.5
        grads = {name: torch.zeros_like(q) for name in "qkv"}
        keys = torch.arange(q.shape[2])
        # By rows: all scores of a long sequence in float64 are more than a machine has.
        for start in range(0, q.shape[2], _REFERENCE_ROWS):
            rows = slice(start, start + _REFERENCE_ROWS)
            scores = (q[:, :, rows] @ k.transpose(-2, -1)) * scale
            scores = scores.masked_fill(~self.sees(keys[rows, None], keys), float("-inf"))
            weights = scores.softmax(-1)
            output[:, :, rows] = weights @ v
            if self.settings.training:
                back = above[:, :, rows]
                grads["v"] += weights.transpose(-2, -1) @ back
                inner = back @ v.transpose(-2, -1)
                inner = weights * (inner - (inner * weights).sum(-1, keepdim=True)) * scale
                grads["q"][:, :, rows] = inner @ k
                grads["k"] += inner.transpose(-2, -1) @ q[:, :, rows]
        return output, grads if self.settings.training else None

    def _run(self) -> torch.Tensor:
        with self._precision():
            return self.attend(*self.inputs[:3])

    def _precision(self) -> Any:
        if self.case != "mixed":
            return contextlib.nullcontext()
        return torch.autocast(self.settings.device.type, dtype=torch.bfloat16)

    def _values(self) -> list[torch.Tensor]:
        shape = self.settings.shape
        extents = (shape["batch"], shape["heads"], shape["sequence"], shape["head_dim"])
        seed = self.settings.seed * 4 + 77
        return [uniform(extents, seed + i, 2.0).to(self.settings.dtype) for i in range(4)]

    def _mask(self, device: torch.device) -> torch.Tensor:
        positions = torch.arange(self.settings.shape["sequence"], device=device)
        return self.sees(positions[:, None], positions)


class Sdpa(Attention):
    def prepare(self) -> None:
        if not hasattr(torch.nn.functional, "scaled_dot_product_attention"):
            raise NotRun("this torch has no scaled_dot_product_attention")
        is_causal = self.case not in ("sliding_window", "block_sparse")
        self.how: dict[str, Any] = {"is_causal": True}
        if not is_causal:
            self.how = {"attn_mask": self._mask(self.settings.device)}

    def attend(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, **self.how)

    def fallback(self) -> dict[str, Any] | None:
        ran = operators_of(self._run)
        served = sorted(o for o in ran if o.startswith("aten::_scaled_dot_product_"))
        if not served:
            return {"silent": True, "how": "no fused operator of attention ran"}
        return {"silent": any("_math" in one for one in served), "how": ", ".join(served)}


class Flex(Attention):
    compiled = True

    def prepare(self) -> None:
        try:
            from torch.nn.attention.flex_attention import create_block_mask, flex_attention
        except ImportError:
            raise NotRun("this torch has no FlexAttention") from None
        sees, length = self.sees, self.settings.shape["sequence"]
        self.mask = create_block_mask(
            lambda b, h, q, k: sees(q, k),
            None,
            None,
            length,
            length,
            device=str(self.settings.device),
        )
        self.run = torch.compile(flex_attention, dynamic=False)

    def attend(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return self.run(q, k, v, block_mask=self.mask)

    def fallback(self) -> dict[str, Any] | None:
        if not has_compiled():
            return {"silent": True, "how": "no graph was compiled: all of it ran eagerly"}
        plain = {"aten::bmm", "aten::matmul", "aten::softmax", "aten::_softmax"}
        ran = sorted(plain & operators_of(self._run))
        how = f"the compiled region ran {', '.join(ran)}" if ran else "one fused kernel, compiled"
        return {"silent": bool(ran), "how": how}
