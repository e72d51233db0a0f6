"""What one launch is to do, checked completely before torch is imported."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, field
from typing import Any

from crosscheck_probe.request import BadRequest, Device

FORMAT = 1
SIZES = ("small", "medium", "large")
PHASES = ("inference", "training")
PRECISIONS = ("float32", "bfloat16", "float16", "float64")
MEASURES = (
    "latency",
    "peak_memory",
    "correctness",
    "determinism",
    "compile_export",
    "checkpoint",
)


@dataclass(frozen=True)
class Launch:
    """`shape` overrides single numbers of the size's table. `time_limit_s`: None for no limit."""

    raw: dict[str, Any]
    workload: str | None = None
    command: tuple[str, ...] | None = None
    size: str = "small"
    phase: str = "inference"
    device: Device = field(default_factory=Device)
    seed: int = 0
    precision: str = "float32"
    shape: dict[str, Any] = field(default_factory=dict)
    warmup: int = 5
    iterations: int = 59
    time_limit_s: float | None = None
    threads: int = 1
    cpus: tuple[int, ...] | None = None
    deterministic: bool = False
    measure: frozenset[str] = frozenset({"latency"})
    determinism_runs: int = 5
    ranks: int = 2
    kill_rank: int | None = None
    checkpoint_write: str | None = None
    checkpoint_read: str | None = None
    cold: bool = True
    cache_dir: str | None = None

    @property
    def name(self) -> str:
        return self.workload or "command"

    @property
    def is_users(self) -> bool:
        """Whether the workload is a function of the user's own."""
        return self.workload is not None and self.workload.startswith("python:")


def parse_launch(raw: dict[str, Any]) -> Launch:
    """Returns what `raw` asks for; BadRequest names the field that is wrong."""
    unknown = sorted(set(raw) - _KEYS)
    if unknown:
        raise BadRequest(f"{unknown[0]!r} is no field of a request; known: {', '.join(FIELDS)}")
    if raw.get("format") != FORMAT or isinstance(raw.get("format"), bool):
        raise BadRequest(f'"format" must be {FORMAT}')
    if (raw.get("workload") is None) == (raw.get("command") is None):
        raise BadRequest('exactly one of "workload" and "command" must be given')
    checkpoint = _checkpoint(raw.get("checkpoint"))
    cache = _one_of(raw, "cache", ("cold", "warm"), "cold")
    cache_dir = _folder(raw.get("cache_dir"), "cache_dir")
    if (cache == "warm") != (cache_dir is not None):
        raise BadRequest('"cache_dir" is the folder of a "cache" that is warm, and needed for it')
    launch = Launch(
        raw=raw,
        workload=_workload(raw.get("workload")),
        command=_command(raw.get("command")),
        size=_one_of(raw, "size", SIZES, "small"),
        phase=_one_of(raw, "phase", PHASES, "inference"),
        device=_device(raw.get("device")),
        seed=_whole(raw, "seed", 0, 0, 2**63 - 1),
        precision=_one_of(raw, "precision", PRECISIONS, "float32"),
        shape=_shape(raw.get("shape")),
        warmup=_whole(raw, "warmup", 5, 0, 1_000_000),
        iterations=_whole(raw, "iterations", 59, 1, 1_000_000),
        time_limit_s=_seconds(raw.get("time_limit_s")),
        threads=_whole(raw, "threads", 1, 1, 4096),
        cpus=_cpus(raw.get("cpus")),
        deterministic=_flag(raw, "deterministic"),
        measure=_measure(raw.get("measure", ["latency"])),
        determinism_runs=_whole(raw, "determinism_runs", 5, 2, 10_000),
        ranks=_whole(raw, "ranks", 2, 1, 256),
        kill_rank=None if raw.get("kill_rank") is None else _whole(raw, "kill_rank", 0, 0, 255),
        checkpoint_write=checkpoint.get("write"),
        checkpoint_read=checkpoint.get("read"),
        cold=cache == "cold",
        cache_dir=cache_dir,
    )
    if launch.kill_rank is not None and launch.kill_rank >= launch.ranks:
        raise BadRequest('"kill_rank" must be below "ranks"')
    return launch


FIELDS = (
    "format",
    "workload",
    "command",
    "size",
    "phase",
    "device",
    "seed",
    "precision",
    "shape",
    "warmup",
    "iterations",
    "time_limit_s",
    "threads",
    "cpus",
    "deterministic",
    "measure",
    "determinism_runs",
    "ranks",
    "kill_rank",
    "checkpoint",
    "cache",
    "cache_dir",
)
_KEYS = frozenset(FIELDS)


def _workload(value: Any) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str) or not value:
        raise BadRequest('"workload" must be a name')
    if value.startswith("python:"):
        parts = value.split(":")
        names = [name for part in parts[1:] for name in part.split(".")]
        if len(parts) != 3 or not all(name.isidentifier() for name in names):
            raise BadRequest('"workload" must be written python:module:function')
    return value


def _command(value: Any) -> tuple[str, ...] | None:
    if value is None:
        return None
    if (
        not isinstance(value, list)
        or not value
        or not all(isinstance(word, str) and "\0" not in word for word in value)
        or not value[0]
    ):
        raise BadRequest('"command" must be a list of texts, the program first')
    return tuple(value)


def _device(value: Any) -> Device:
    if value is None:
        return Device()
    if not isinstance(value, dict) or set(value) - {"name", "module", "path"}:
        raise BadRequest('"device" must be an object of "name", "module" and "path"')
    for key in ("name", "module", "path"):
        found = value.get(key)
        if not (isinstance(found, str) and found) and (key == "name" or found is not None):
            raise BadRequest(f'"device.{key}" must be a text')
    return Device(value["name"], value.get("module"), value.get("path"))


def _shape(value: Any) -> dict[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise BadRequest('"shape" must be an object')
    for key, number in value.items():
        if isinstance(number, (list, dict)) or number is None:
            raise BadRequest(f'"shape.{key}" must be a number, a text or true or false')
    return dict(value)


def _cpus(value: Any) -> tuple[int, ...] | None:
    if value is None:
        return None
    if (
        not isinstance(value, list)
        or not value
        or not all(isinstance(cpu, int) and not isinstance(cpu, bool) and cpu >= 0 for cpu in value)
    ):
        raise BadRequest('"cpus" must be a list of numbers of processors')
    return tuple(sorted(set(value)))


def _measure(value: Any) -> frozenset[str]:
    if not isinstance(value, list) or not all(one in MEASURES for one in value):
        raise BadRequest(f'"measure" must be a list out of {", ".join(MEASURES)}')
    return frozenset(value)


def _checkpoint(value: Any) -> dict[str, str]:
    if value is None:
        return {}
    if not isinstance(value, dict) or set(value) not in ({"write"}, {"read"}):
        raise BadRequest('"checkpoint" must be {"write": FOLDER}, {"read": FOLDER} or null')
    key = next(iter(value))
    folder = _folder(value[key], f"checkpoint.{key}")
    assert folder is not None
    if key == "read" and not os.path.isdir(folder):
        raise BadRequest(f'"checkpoint.read" is no folder: {folder}')
    return {key: folder}


def _folder(value: Any, field_name: str) -> str | None:
    if value is None and field_name == "cache_dir":
        return None
    if not isinstance(value, str) or not os.path.isabs(value) or "\0" in value:
        raise BadRequest(f'"{field_name}" must be the absolute path of a folder')
    return value


def _one_of(raw: dict[str, Any], key: str, known: tuple[str, ...], default: str) -> str:
    value = raw.get(key, default)
    if value not in known:
        raise BadRequest(f'"{key}" must be one of {", ".join(known)}')
    return str(value)


def _whole(raw: dict[str, Any], key: str, default: int, low: int, high: int) -> int:
    value = raw.get(key, default)
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise BadRequest(f'"{key}" must be a whole number from {low} to {high}')
    return value


def _flag(raw: dict[str, Any], key: str) -> bool:
    value = raw.get(key, False)
    if not isinstance(value, bool):
        raise BadRequest(f'"{key}" must be true or false')
    return value


def _seconds(value: Any) -> float | None:
    if value is None:
        return None
    if (
        isinstance(value, bool)
        or not isinstance(value, (int, float))
        or not math.isfinite(value)
        or value <= 0
    ):
        raise BadRequest('"time_limit_s" must be a number of seconds above 0')
    return float(value)
