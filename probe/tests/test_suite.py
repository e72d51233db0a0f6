"""The bundled suite as an inventory, and its quick set on the reference device."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from conftest import Answer, ask

BUNDLED = {"name": "bundled"}


@pytest.fixture(scope="module")
def inventory(refdev_device: dict[str, Any]) -> Answer:
    return ask("collect", {"suite": BUNDLED, "device": refdev_device})


def test_everything_collects(inventory: Answer) -> None:
    assert inventory.code == 0
    assert inventory.of("collect_error", "collect_skip") == []
    assert len(inventory.of("test")) >= 2000
    assert len(inventory.of("collecting")) == len({t["file"] for t in inventory.of("test")}) >= 8


def test_identities_are_unique(inventory: Answer) -> None:
    seen = Counter(
        (t["file"], t["class"], t["method"], tuple(sorted(t["variant"].items())))
        for t in inventory.of("test")
    )
    assert [key for key, count in seen.items() if count > 1] == []
    assert not any("case" in t["variant"] for t in inventory.of("test"))
    assert len({t["node"] for t in inventory.of("test")}) == len(seen)


def test_names_are_as_written(inventory: Answer) -> None:
    for test in inventory.of("test"):
        assert not test["class"].upper().endswith(("PRIVATEUSE1", "REFDEV"))
        assert "refdev" not in test["method"]
        assert test["variant"]["device"] == "refdev:0"
        assert test["line"] > 1


def test_quick_set_has_its_size(inventory: Answer) -> None:
    quick = [t for t in inventory.of("test") if t["quick"]]
    assert 150 <= len(quick) <= 300
    assert len({t["file"] for t in quick}) == 5


@pytest.mark.parametrize("file", ["test_forward_float.py", "test_views.py"])
def test_quick_set_runs_alone(inventory: Answer, refdev_device: dict[str, Any], file: str) -> None:
    """What was collected with the whole suite is found in a run of one file."""
    wanted = [t["node"] for t in inventory.of("test") if t["file"] == file and t["quick"]]
    request = {"suite": BUNDLED, "device": refdev_device, "file": file, "tests": wanted}
    answer = ask("run", request)
    assert answer.code == 0 and answer.of("missing") == []
    assert [line["node"] for line in answer.of("finish")] == wanted
    outcomes = Counter(line["outcome"] for line in answer.of("finish"))
    assert outcomes["passed"] > len(wanted) // 3
    assert set(outcomes) <= {"passed", "failed", "skipped"}
    # What fails on the reference device fails for want of an operator, and for nothing else.
    failed = [line for line in answer.of("finish") if line["outcome"] == "failed"]
    assert [f for f in failed if f["type"] != "NotImplementedError"] == []
    assert (len(failed) > 0) == (file == "test_forward_float.py")


def test_device_is_right_about_cpu(inventory: Answer) -> None:
    """On the CPU itself the suite's own comparisons hold."""
    file = "test_copies.py"
    answer = ask("run", {"suite": BUNDLED, "device": {"name": "cpu"}, "file": file})
    assert {line["outcome"] for line in answer.of("finish")} <= {"passed", "skipped"}
