"""Compiled models: graphs, recompiles, dimensions that vary, export."""

from __future__ import annotations

from typing import Any

import torch

from crosscheck_probe.workload.base import Exportable, NotRun, Settings, Workload
from crosscheck_probe.workload.launch import has_compiled
from crosscheck_probe.workload.model import (
    MlpWorkload,
    ModelWorkload,
    TransformerWorkload,
    batch_of,
)


def make(name: str, settings: Settings) -> Workload:
    if not hasattr(torch, "compile"):
        raise NotRun("this torch has no torch.compile")
    return {
        "mlp": CompiledMlp,
        "conv": CompiledConv,
        "transformer": CompiledTransformer,
        "dynamic": DynamicMlp,
    }[name](settings)


class Compiled(ModelWorkload):
    """Mixed into a model: compiles it, tells whether that was so, and offers it for export."""

    compile_with: dict[str, Any] | None = {}

    def exportable(self) -> Exportable | None:
        assert self.model is not None
        return Exportable(self.model, tuple(self.data[:-1]), ({0: "batch"},))

    def fallback(self) -> dict[str, Any] | None:
        ran = has_compiled()
        how = "graphs were compiled" if ran else "no graph was compiled: all of it ran eagerly"
        return {"silent": not ran, "how": how}


class CompiledMlp(Compiled, MlpWorkload):
    pass


class CompiledTransformer(Compiled, TransformerWorkload):
    pass


class DynamicMlp(Compiled, MlpWorkload):
    """The batch has four sizes in turn, as real requests have many. The first is the whole."""

    compile_with: dict[str, Any] | None = {"dynamic": True}

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        rows = settings.shape["batch"]
        self._parts = [max(rows - turn * max(rows // 8, 1), 2) for turn in range(4)]
        self.items = sum(self._parts) // len(self._parts)

    def setup(self) -> None:
        super().setup()
        self._whole = getattr(self, "_whole", self.data)
        self.data = self._whole
        self._turn = 0

    def inference(self) -> Any:
        self._take()
        return super().inference()

    def step(self) -> Any:
        self._take()
        return super().step()

    def _take(self) -> None:
        part = self._parts[self._turn % len(self._parts)]
        self._turn += 1
        self.data = [one[:part] for one in self._whole]


class CompiledConv(Compiled):
    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self.items = settings.shape["batch"]

    def build(self) -> torch.nn.Module:
        channels = self.settings.shape["channels"]
        return torch.nn.Sequential(
            torch.nn.Conv2d(3, channels, 3, padding=1),
            torch.nn.GroupNorm(4, channels),
            torch.nn.ReLU(),
            torch.nn.Conv2d(channels, channels, 3, padding=1, stride=2),
            torch.nn.ReLU(),
            torch.nn.AdaptiveAvgPool2d(4),
            torch.nn.Flatten(),
            torch.nn.Linear(16 * channels, 10),
        )

    def batch(self, part: int) -> tuple[torch.Tensor, ...]:
        shape = self.settings.shape
        images = (shape["batch"], 3, shape["image"], shape["image"])
        image, _ = batch_of(images, self.settings.seed, part)
        _, target = batch_of((shape["batch"], 10), self.settings.seed, part)
        return image, target
