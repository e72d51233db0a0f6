"""The library's cases as data: what there is, how large, what each needs. Without torch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from crosscheck_probe.request import BadRequest
from crosscheck_probe.workload.request import SIZES, Launch


@dataclass(frozen=True)
class Case:
    """`needs`: in words, what must be there for it to run. `sizes`: shape by size."""

    name: str
    what: str
    phases: tuple[str, ...]
    unit: str
    sizes: dict[str, dict[str, int]]
    needs: tuple[str, ...] = ()
    distributed: bool = False
    compiled: bool = False

    @property
    def lane(self) -> str:
        return self.name.split(".")[0]

    def described(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "lane": self.lane,
            "what": self.what,
            "phases": list(self.phases),
            "unit": self.unit,
            "sizes": self.sizes,
            "needs": list(self.needs),
            "distributed": self.distributed,
            "compiled": self.compiled,
        }


def find(launch: Launch) -> Case:
    """Returns the library's case that is asked for; BadRequest where phase or shape are not its."""
    case = CASES.get(launch.workload or "")
    if case is None:
        raise BadRequest(f'"workload" {launch.workload!r} is not in the library: see --list')
    if launch.phase not in case.phases:
        raise BadRequest(f'"phase" of {case.name} must be {" or ".join(case.phases)}')
    table = case.sizes[launch.size]
    for key, value in launch.shape.items():
        if key not in table:
            raise BadRequest(f'"shape.{key}" is not in {case.name}, which has {", ".join(table)}')
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise BadRequest(f'"shape.{key}" must be a whole number of at least 1')
    if launch.kill_rank is not None and not case.distributed:
        raise BadRequest(f'"kill_rank" is for workloads of several ranks, not for {case.name}')
    return case


_BOTH = ("inference", "training")


def _sizes(keys: str, *rows: tuple[int, ...]) -> dict[str, dict[str, int]]:
    return {size: dict(zip(keys.split(), row)) for size, row in zip(SIZES, rows)}


_MLP = _sizes("batch width depth", (16, 128, 3), (64, 512, 4), (256, 2048, 6))
_TRANSFORMER = _sizes(
    "batch sequence width heads layers",
    (2, 32, 64, 4, 2),
    (4, 128, 256, 8, 4),
    (8, 512, 768, 12, 12),
)


def _all() -> Iterator[Case]:
    yield Case("fallback.mlp", "linear layers and GELU, eager", _BOTH, "samples", _MLP)
    yield Case("fallback.transformer", "encoder blocks, eager", _BOTH, "tokens", _TRANSFORMER)
    yield from _compile()


def _compile() -> Iterator[Case]:
    needs = ("torch >= 2.0", "a C++ compiler")

    def case(name: str, what: str, unit: str, sizes: dict[str, dict[str, int]]) -> Case:
        return Case(f"compile.{name}", what, _BOTH, unit, sizes, needs, compiled=True)

    conv = _sizes("batch channels image", (2, 8, 32), (8, 32, 64), (32, 64, 224))
    yield case("mlp", "linear layers and GELU, compiled", "samples", _MLP)
    yield case("conv", "convolutions, normalised, compiled", "samples", conv)
    yield case("transformer", "encoder blocks, compiled", "tokens", _TRANSFORMER)
    yield case("dynamic", "linear layers, compiled for batches that vary", "samples", _MLP)


CASES: dict[str, Case] = {case.name: case for case in _all()}
