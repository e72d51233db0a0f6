"""Prototype kernels: CuTeDSL's grouped matrix product, which torch's compiler may choose."""

from __future__ import annotations

import importlib.util
from typing import Any

import torch

from crosscheck_probe.workload.base import NotRun, Settings, Workload, uniform

_BLACKWELL = 10


def make(name: str, settings: Settings) -> Workload:
    if importlib.util.find_spec("cutlass") is None:
        raise NotRun("CuTeDSL's module cutlass is not installed")
    if settings.device.type != "cuda" or torch.version.hip:
        raise NotRun(f"CuTeDSL has no kernels for {settings.device.type}")
    if torch.cuda.get_device_capability(settings.device)[0] != _BLACKWELL:
        raise NotRun("torch's CuTeDSL kernels are for Blackwell, and this device is another")
    if not hasattr(torch, "_grouped_mm"):
        raise NotRun("this torch has no grouped matrix product")
    return GroupedProduct(settings, "CUTEDSL" if name == "cutedsl" else "ATEN")


class GroupedProduct(Workload):
    """`backends`: whose kernels the compiler may use; ATen's is what to switch back to."""

    compiled = True

    def __init__(self, settings: Settings, backends: str) -> None:
        self.settings = settings
        self.items = settings.shape["groups"] * settings.shape["rows"]
        self._options = {"max_autotune": True, "max_autotune_gemm_backends": backends}

    def setup(self) -> None:
        if hasattr(self, "run"):
            return
        device, groups = self.settings.device, self.settings.shape["groups"]
        left, right = self._values()
        self.left, self.right = left.to(device), right.to(device)
        self.ends = self._ends().to(device)
        self.run = torch.compile(torch._grouped_mm, options=self._options)
        assert self.ends.numel() == groups

    def inference(self) -> Any:
        with torch.no_grad():
            return self.run(self.left, self.right, self.ends)

    def reference(self) -> Any:
        left, right = self._values()
        rows = self.settings.shape["rows"]
        parts = left.double().split(rows)
        return torch.cat([a @ b for a, b in zip(parts, right.double())]), None

    def _values(self) -> list[torch.Tensor]:
        shape, seed = self.settings.shape, self.settings.seed * 2 + 11
        groups, width = shape["groups"], shape["width"]
        values = [
            uniform((groups * shape["rows"], width), seed),
            uniform((groups, width, width), seed + 1, width**-0.5),
        ]
        return [one.to(torch.bfloat16) for one in values]

    def _ends(self) -> torch.Tensor:
        rows, groups = self.settings.shape["rows"], self.settings.shape["groups"]
        return torch.arange(rows, rows * groups + 1, rows, dtype=torch.int32)
