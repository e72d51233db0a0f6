"""Plain eager models: the paths that must work where nothing is fused or compiled."""

from __future__ import annotations

from crosscheck_probe.workload.base import Settings, Workload
from crosscheck_probe.workload.model import MlpWorkload, TransformerWorkload


def make(name: str, settings: Settings) -> Workload:
    return {"mlp": MlpWorkload, "transformer": TransformerWorkload}[name](settings)
