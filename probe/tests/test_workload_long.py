"""The whole library, each case in each phase: minutes, so only with CROSSCHECK_LONG=1."""

from __future__ import annotations

import json
import os
import signal
from typing import Any

import pytest
from conftest import DEADLINE
from test_workload import EVERYTHING, FOREVER, Place, check_schema, place, ranks_of, sound

from crosscheck_probe.workload.catalogue import CASES

__all__ = ["place"]


@pytest.mark.parametrize(
    ("precision", "tolerance"),
    [("float64", 1e-9), ("float32", 1e-5), ("bfloat16", 0.5), ("float16", 5e-2)],
)
def test_every_eager_case(place: Place, precision: str, tolerance: float) -> None:
    cases = [
        (name, phase)
        for name, case in CASES.items()
        if not case.compiled and not case.distributed
        for phase in case.phases
    ]
    requests = [
        {"workload": name, "phase": phase, "precision": precision, **EVERYTHING}
        for name, phase in cases
    ]
    for (name, _), one in zip(cases, place.results(requests)):
        assert one.found is not None, one.output
        sound(one.found, max(tolerance, 5e-2) if "mixed" in name else tolerance)


def test_a_rank_that_hangs_fails_the_launch(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(place.root))
    process = place.begin({**FOREVER, "time_limit_s": 20})
    os.kill(ranks_of(process, place, 2)[1], signal.SIGSTOP)
    process.communicate(timeout=DEADLINE)
    result = json.loads((place.root / "result.json").read_text())
    check_schema(result)
    assert result["status"] == "failed" and result["failure_mode"] in ("rank_lost", "timeout")


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.distributed])
def test_every_case_of_several_ranks(place: Place, name: str) -> None:
    phase = CASES[name].phases[0]
    for ranks in (2, 3):
        result = place.result({"workload": name, "phase": phase, "ranks": ranks, **EVERYTHING})
        if "torchcomms" in name and result["status"] == "not_run":
            assert result["reason"] == "torchcomms is not installed"
            return
        sound(result, 1e-5)
        assert len(result["ranks"]) == ranks


def test_a_checkpoint_of_ranks_is_read_by_another_launch(place: Place) -> None:
    folder = str(place.root / "checkpoint")
    request = {"phase": "training", "warmup": 1, "iterations": 2, "measure": ["checkpoint"]}
    for name in ("distributed.ddp", "distributed.fsdp2"):
        wrote = place.result({"workload": name, "checkpoint": {"write": folder}, **request})
        assert wrote["checkpoint"]["ok"], wrote["checkpoint"]
        read = place.result({"workload": name, "checkpoint": {"read": folder}, **request})
        assert read["checkpoint"]["ok"], read["checkpoint"]
        assert read["checkpoint"]["digest"] == wrote["checkpoint"]["digest"]


@pytest.mark.parametrize(
    ("name", "phase"),
    [(n, phase) for n, case in CASES.items() if case.compiled for phase in case.phases],
)
def test_every_compiled_case(place: Place, tmp_path_factory: Any, name: str, phase: str) -> None:
    cache = tmp_path_factory.getbasetemp() / "compile-cache"
    request = {"workload": name, "phase": phase, "cache": "warm", "cache_dir": str(cache)}
    result = place.result({**request, **EVERYTHING})
    if name.startswith("kernels."):
        assert result["status"] == "not_run"
        return
    if (result["failure_mode"], name.split("_")[0]) == ("unsupported", "attention.flex"):
        assert phase == "training" and "does not support backward" in result["reason"]
        return
    sound(result, 5e-2 if "mixed" in name else 1e-5)
    assert result["counters"]["unique_graphs"] >= 1 and result["counters"]["graph_breaks"] == 0
    assert result["compile_s"] > 0 and not result["fallback"]["silent"]
    if result["export"] is not None:
        assert all(one["ok"] for one in result["export"].values()), result["export"]
