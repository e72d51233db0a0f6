"""What a workload is to the measurement. The library's cases and a user's own answer alike."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import torch

from crosscheck_probe.workload.request import Launch


class NotRun(Exception):
    """The workload cannot be run here, and that is no failure of it; the text says why."""


@dataclass(frozen=True)
class Exportable:
    """`dynamic`: for each argument its dimensions that vary, to the name each has."""

    module: torch.nn.Module
    arguments: tuple[Any, ...]
    dynamic: tuple[dict[int, str] | None, ...]


class Workload:
    """One workload, built by its constructor as little as possible: `setup` does it.

    What `step` and `inference` return is the output: tensors and numbers, nested in lists, tuples
    and mappings. Where `setup` is called again, the next run must do what the first one did.
    """

    unit = "samples"
    items: int | None = None
    compiled = False

    def setup(self) -> None:
        """Builds the state from the seed, or takes it back to that."""

    def inference(self) -> Any:
        raise NotRun("the workload has no inference()")

    def step(self) -> Any:
        """One step of training, the optimizer's included."""
        raise NotRun("the workload has no step()")

    def gradients(self) -> dict[str, Any] | None:
        """The gradients that the last step worked with."""
        return None

    def reference(self) -> tuple[Any, dict[str, Any] | None] | None:
        """Output and gradients of the first run after `setup`, in float64 on the host."""
        return None

    def metric(self) -> dict[str, Any] | None:
        """What the task is judged by: `name`, `value`, `higher_is_better`."""
        return None

    def state_dict(self) -> dict[str, Any] | None:
        return None

    def load_state_dict(self, state: dict[str, Any]) -> None:
        raise NotRun("the workload has no load_state_dict()")

    def save(self, folder: str) -> None:
        """Writes a checkpoint with all that `load` needs to go on from here."""
        state = self.state_dict()
        if state is None:
            raise NotRun("the workload has no state_dict()")
        random = torch.get_rng_state()
        torch.save({"state": state, "rng": random}, os.path.join(folder, "checkpoint.pt"))

    def load(self, folder: str) -> None:
        found = torch.load(os.path.join(folder, "checkpoint.pt"), map_location="cpu")
        self.load_state_dict(found["state"])
        torch.set_rng_state(found["rng"])

    def exportable(self) -> Exportable | None:
        return None

    def fallback(self) -> dict[str, Any] | None:
        """Whether a slower path than the one asked for was taken without a word, and how known."""
        return None

    def close(self) -> None:
        """Ends what `setup` began."""


@dataclass(frozen=True)
class Settings:
    """What a library case is built from. `rank` of `world`: 0 of 1 where it runs alone."""

    launch: Launch
    shape: dict[str, int]
    device: torch.device
    dtype: torch.dtype
    rank: int = 0
    world: int = 1

    @property
    def training(self) -> bool:
        return self.launch.phase == "training"

    @property
    def seed(self) -> int:
        return self.launch.seed


def uniform(shape: tuple[int, ...], seed: int, scale: float = 1.0) -> torch.Tensor:
    """Returns float32 values in ±`scale`, the same bits in every version of torch.

    torch's own generators may differ between versions and vector units in the last bits.
    """
    return ((_scrambled(shape, seed) & 0xFFFFFF).to(torch.float32) / 2**23 - 1.0) * scale


def integers(shape: tuple[int, ...], seed: int, below: int) -> torch.Tensor:
    """Returns int64 values from 0 up to `below`, the same in every version of torch."""
    return (_scrambled(shape, seed) & 0x7FFFFFFF) % below


def _scrambled(shape: tuple[int, ...], seed: int) -> torch.Tensor:
    count = 1
    for extent in shape:
        count *= extent
    start = _signed((seed + 1) * 0x9E3779B97F4A7C15)
    value = torch.arange(count, dtype=torch.int64) * _signed(0xD1342543DE82EF95) + start
    for factor in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53):
        value = (value ^ (value >> 33)) * _signed(factor)
    return ((value ^ (value >> 33)) >> 7).reshape(shape)


def _signed(value: int) -> int:
    value &= 2**64 - 1
    return value - 2**64 if value >= 2**63 else value


def fill(module: torch.nn.Module, seed: int) -> torch.nn.Module:
    """Sets all matrices and filters to values from `seed` of the usual size for their fan-in."""
    with torch.no_grad():
        for index, (_, parameter) in enumerate(sorted(module.named_parameters())):
            if parameter.dim() > 1:
                fan_in = parameter[0].numel()
                values = uniform(tuple(parameter.shape), seed * 1009 + index, fan_in**-0.5)
                parameter.copy_(values)
    return module


def gradients_of(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    return {n: p.grad for n, p in module.named_parameters() if p.grad is not None}
