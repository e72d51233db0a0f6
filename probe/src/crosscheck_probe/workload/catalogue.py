"""The library's cases as data: what there is, how large, what each needs. Without torch."""

from __future__ import annotations

import importlib.metadata
import os
import re
import shutil
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
            "lacks": [need for need in self.needs if is_missing(need)],
            "distributed": self.distributed,
            "compiled": self.compiled,
        }


def is_missing(need: str) -> bool:
    """Whether `need` is seen to be missing, without importing torch; what is not seen may be."""
    version = re.match(r"torch >= (\d+)\.(\d+)", need)
    if version or need.startswith("torch."):
        found = re.match(r"(\d+)\.(\d+)", _version_of("torch") or "")
        if found is None:
            return True
        wanted = version.groups() if version else ("0", "0")
        return tuple(map(int, found.groups())) < tuple(map(int, wanted))
    if need == "a C++ compiler":
        compilers = (os.environ.get("CXX"), "c++", "g++", "clang++")
        return not any(name and shutil.which(name) for name in compilers)
    if need == "a Blackwell CUDA device":
        return not os.path.exists("/dev/nvidiactl")
    if need in ("torchcomms", "nvidia-cutlass-dsl"):
        return _version_of(need) is None
    return False


def _version_of(distribution: str) -> str | None:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


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
    if launch.kill_rank is not None and "torchrun" in case.name:
        raise BadRequest(f'"kill_rank" is not for {case.name}: torchrun ends the others itself')
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
    yield from _attention()
    yield from _memory()
    yield from _checkpoint()
    yield from _kernels()
    yield from _communication()
    yield from _distributed()


def _communication() -> Iterator[Case]:
    sizes = _sizes("bytes", (1 << 16,), (1 << 22,), (1 << 26,))
    gloo = "gloo, or NCCL and a CUDA device a rank"
    cases = {
        "all_reduce": ("every rank gets the sum", gloo),
        "all_gather": ("every rank gets all parts", gloo),
        "reduce_scatter": ("every rank gets its share of the sum", gloo),
        "broadcast": ("every rank gets rank 0's", gloo),
        "torchrun_all_reduce": ("the sum, among ranks that torchrun starts", gloo),
        "torchcomms_all_reduce": ("the sum, by torchcomms", "torchcomms"),
    }
    for name, (what, needs) in cases.items():
        yield Case(
            f"communication.{name}",
            what,
            ("inference",),
            "bytes",
            sizes,
            (needs,),
            distributed=True,
        )


def _distributed() -> Iterator[Case]:
    for name, what, needs in (
        ("ddp", "DistributedDataParallel, encoder blocks", "gloo, or NCCL"),
        ("fsdp2", "fully_shard, encoder blocks", "torch >= 2.6 with gloo, or NCCL"),
    ):
        yield Case(
            f"distributed.{name}",
            what,
            ("training",),
            "tokens",
            _TRANSFORMER,
            (needs,),
            distributed=True,
        )


def _attention() -> Iterator[Case]:
    keys = "batch heads sequence head_dim"
    plain = _sizes(keys, (1, 2, 256, 32), (2, 4, 1024, 64), (4, 16, 2048, 64))
    long = _sizes(keys, (1, 1, 1024, 32), (1, 2, 4096, 64), (1, 8, 16384, 64))

    def more(key: str, *values: int) -> dict[str, dict[str, int]]:
        return {s: {**row, key: v} for (s, row), v in zip(plain.items(), values)}

    cases = {
        "causal": ("each token sees those before it", plain),
        "sliding_window": ("each token sees the last few", more("window", 64, 256, 512)),
        "block_sparse": ("blocks see themselves and every fourth", more("block", 32, 128, 128)),
        "long": ("causal over a long sequence", long),
        "mixed": ("causal, float32 under autocast to bfloat16", plain),
    }
    for case, (what, sizes) in cases.items():
        yield Case(f"attention.sdpa_{case}", what, _BOTH, "tokens", sizes, ("torch >= 2.0",))
    needs = ("torch >= 2.5", "a C++ compiler")
    for case, (what, sizes) in cases.items():
        name = f"attention.flex_{case}"
        yield Case(name, what, _BOTH, "tokens", sizes, needs, compiled=True)


def _memory() -> Iterator[Case]:
    sizes = _sizes(
        "tokens features classes", (256, 64, 4000), (512, 256, 16000), (2048, 512, 32000)
    )
    fused = ("torch.nn.LinearCrossEntropyLoss",)
    for kind, what, needs in (
        ("linear_then_cross_entropy", "a linear layer, then the loss", ()),
        ("linear_cross_entropy", "LinearCrossEntropyLoss with options", fused),
        ("linear_cross_entropy_plain", "LinearCrossEntropyLoss without options", fused),
    ):
        yield Case(f"memory.{kind}", what, _BOTH, "tokens", sizes, needs)
        mixed = f"{what}, float32 under autocast to bfloat16"
        yield Case(f"memory.{kind}_mixed", mixed, _BOTH, "tokens", sizes, needs)


def _checkpoint() -> Iterator[Case]:
    yield Case("checkpoint.model", "a model saved and loaded", ("inference",), "bytes", _MLP)
    what = "a step, then model and optimizer saved and loaded"
    yield Case("checkpoint.training", what, ("training",), "bytes", _MLP)


def _kernels() -> Iterator[Case]:
    sizes = _sizes("groups rows width", (4, 128, 256), (16, 512, 1024), (64, 1024, 4096))
    needs = ("a Blackwell CUDA device", "nvidia-cutlass-dsl", "an ownership record")
    for name, what in (
        ("cutedsl", "a grouped matrix product by CuTeDSL's kernels"),
        ("aten", "the same by ATen's: what to switch back to, and compare with"),
    ):
        yield Case(f"kernels.{name}", what, ("inference",), "rows", sizes, needs, compiled=True)


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
