"""One launch of a workload as the gate starts it: a process, a request, a result."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import hypothesis
import hypothesis.strategies
import pytest
from conftest import DEADLINE, PROBE

from crosscheck_probe.request import BadRequest
from crosscheck_probe.workload import catalogue
from crosscheck_probe.workload.catalogue import CASES, find
from crosscheck_probe.workload.request import FIELDS, MEASURES, parse_launch

ITERATION = {"wall_s", "thread_cpu_s", "process_cpu_s", "warmup"}
KEYS = {
    *("format", "workload", "status", "reason", "failure_mode", "traceback", "versions", "build"),
    *("threads", "cpus", "governor", "load", "environment", "iterations", "stopped_early"),
    *("items_per_iteration", "unit", "first_run_s", "compile_s", "restart_s"),
    *("peak_memory_bytes", "peak_memory_since", "memory_before_bytes", "device_peak_memory_bytes"),
    *("counters", "output", "gradients", "determinism", "export", "metric", "checkpoint"),
    *("fallback", "ranks", "recovery"),
}
OUTPUT = {"digest", "shape", "dtype", "nan", "inf", "rmse", "max_error", "cosine"} | {
    "reference_norm",
    "reference_projection",
}


@dataclass
class Place:
    """A folder with a user's modules, in which launches are started."""

    root: Path

    def write(self, name: str, text: str) -> None:
        (self.root / name).write_text(textwrap.dedent(text), encoding="utf-8")

    def begin(self, request: dict[str, Any], program: str = "") -> subprocess.Popen[str]:
        """Starts a launch; `program`: Python text to start it with instead of the module."""
        (self.root / "request.json").write_text(json.dumps({"format": 1, **request}))
        (self.root / "result.json").unlink(missing_ok=True)
        how = ["-c", textwrap.dedent(program)] if program else ["-m", "crosscheck_probe.workload"]
        return subprocess.Popen(
            [sys.executable, *how, "request.json", "result.json"],
            cwd=self.root,
            env={**os.environ, "PYTHONPATH": str(PROBE / "src")},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )

    def launch(self, request: dict[str, Any], program: str = "") -> Launched:
        process = self.begin(request, program)
        try:
            output, _ = process.communicate(timeout=DEADLINE)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            raise
        file = self.root / "result.json"
        result = json.loads(file.read_text()) if file.exists() else None
        left = [p.name for p in self.root.iterdir() if p.name.startswith(".result")]
        assert not left, "a temporary file stays behind"
        return Launched(process.returncode, output, result)

    def results(self, requests: list[dict[str, Any]]) -> list[Launched]:
        """Does each request in a fork of one process that has imported torch."""
        for number, request in enumerate(requests):
            text = json.dumps({"format": 1, **request})
            (self.root / f"request-{number}.json").write_text(text)
        program = """
            import os, sys
            import torch
            from crosscheck_probe.workload import __main__
            for number in range(int(sys.argv[1])):
                pid = os.fork()
                if pid == 0:
                    output = os.open(f"output-{number}", os.O_WRONLY | os.O_CREAT)
                    os.dup2(output, 1), os.dup2(output, 2)
                    files = [f"request-{number}.json", f"result-{number}.json"]
                    __main__.leave(__main__.main(files))
                code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
                with open(f"code-{number}", "w") as file:
                    file.write(str(code))
        """
        subprocess.run(
            [sys.executable, "-c", textwrap.dedent(program), str(len(requests))],
            cwd=self.root,
            env={**os.environ, "PYTHONPATH": str(PROBE / "src")},
            check=True,
            timeout=DEADLINE,
        )
        found = []
        for number in range(len(requests)):
            file = self.root / f"result-{number}.json"
            result = json.loads(file.read_text()) if file.exists() else None
            if result is not None:
                check_schema(result)
            code = int((self.root / f"code-{number}").read_text())
            output = (self.root / f"output-{number}").read_text(errors="replace")
            found.append(Launched(code, output, result))
        return found

    def result(self, request: dict[str, Any]) -> dict[str, Any]:
        launched = self.launch(request)
        assert launched.code == 0, launched.output
        assert launched.found is not None
        check_schema(launched.found)
        return launched.found


@dataclass
class Launched:
    code: int
    output: str
    found: dict[str, Any] | None


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def check_schema(result: dict[str, Any]) -> None:
    assert set(result) == KEYS
    assert result["status"] in ("ok", "failed", "not_run")
    assert "\n" not in result["reason"]
    assert bool(result["reason"]) == (result["status"] != "ok")
    assert (result["failure_mode"] is None) == (result["status"] != "failed")
    assert all(set(one) == ITERATION for one in result["iterations"])
    for part in ("output", "gradients"):
        assert result[part] is None or set(result[part]) == OUTPUT
    if result["counters"] is not None:
        assert set(result["counters"]) == {
            "graph_breaks",
            "recompiles",
            "captured_calls",
            "unique_graphs",
        }
    if result["checkpoint"] is not None:
        assert set(result["checkpoint"]) == {"wrote", "read", "ok", "reason", "seconds", "digest"}
    if result["metric"] is not None:
        assert set(result["metric"]) == {"name", "value", "higher_is_better"}


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        ({}, '"format"'),
        ({"format": 2, "workload": "fallback.mlp"}, '"format"'),
        ({"format": True, "workload": "fallback.mlp"}, '"format"'),
        ({"workload": "fallback.mlp", "wrokload": 1}, "'wrokload' is no field"),
        ({"workload": None}, 'exactly one of "workload" and "command"'),
        ({"workload": "fallback.mlp", "command": ["true"]}, "exactly one"),
        ({"workload": 3}, '"workload" must be a name'),
        ({"workload": "fallback.none"}, '"workload" .* is not in the library'),
        ({"workload": "python:module"}, '"workload" must be written'),
        ({"workload": "python:os;x:f"}, '"workload" must be written'),
        ({"command": []}, '"command" must be a list'),
        ({"command": "true"}, '"command" must be a list'),
        ({"command": ["a\0b"]}, '"command" must be a list'),
        ({"workload": "fallback.mlp", "size": "huge"}, '"size" must be one of small'),
        ({"workload": "fallback.mlp", "phase": "both"}, '"phase" must be one of'),
        ({"workload": "fallback.mlp", "device": "cpu"}, '"device" must be an object'),
        ({"workload": "fallback.mlp", "device": {"name": 1}}, '"device.name"'),
        ({"workload": "fallback.mlp", "device": {"name": "cpu", "path": 1}}, '"device.path"'),
        ({"workload": "fallback.mlp", "device": {"name": "cpu", "x": 1}}, '"device" must be'),
        ({"workload": "fallback.mlp", "seed": -1}, '"seed" must be a whole number'),
        ({"workload": "fallback.mlp", "seed": True}, '"seed" must be a whole number'),
        ({"workload": "fallback.mlp", "precision": "float8"}, '"precision" must be one of'),
        ({"workload": "fallback.mlp", "shape": []}, '"shape" must be an object'),
        ({"workload": "fallback.mlp", "shape": {"width": [1]}}, '"shape.width"'),
        ({"workload": "fallback.mlp", "shape": {"width": 0}}, '"shape.width"'),
        ({"workload": "fallback.mlp", "shape": {"heads": 2}}, '"shape.heads" is not in'),
        ({"workload": "fallback.mlp", "warmup": 1.5}, '"warmup" must be a whole number'),
        ({"workload": "fallback.mlp", "iterations": 0}, '"iterations" must be'),
        ({"workload": "fallback.mlp", "time_limit_s": 0}, '"time_limit_s" must be'),
        ({"workload": "fallback.mlp", "time_limit_s": float("nan")}, '"time_limit_s" must be'),
        ({"workload": "fallback.mlp", "threads": 0}, '"threads" must be'),
        ({"workload": "fallback.mlp", "cpus": []}, '"cpus" must be a list'),
        ({"workload": "fallback.mlp", "cpus": [-1]}, '"cpus" must be a list'),
        ({"workload": "fallback.mlp", "deterministic": 1}, '"deterministic" must be'),
        ({"workload": "fallback.mlp", "measure": ["speed"]}, '"measure" must be a list'),
        ({"workload": "fallback.mlp", "determinism_runs": 1}, '"determinism_runs" must be'),
        ({"workload": "fallback.mlp", "ranks": 0}, '"ranks" must be'),
        ({"workload": "fallback.mlp", "ranks": 2, "kill_rank": 2}, '"kill_rank" must be below'),
        ({"workload": "fallback.mlp", "kill_rank": 0}, '"kill_rank" is for workloads of several'),
        ({"workload": "fallback.mlp", "checkpoint": {}}, '"checkpoint" must be'),
        ({"workload": "fallback.mlp", "checkpoint": {"write": "a"}}, '"checkpoint.write" must be'),
        ({"workload": "fallback.mlp", "checkpoint": {"read": "/none"}}, '"checkpoint.read" is no'),
        ({"workload": "fallback.mlp", "cache": "hot"}, '"cache" must be one of'),
        ({"workload": "fallback.mlp", "cache": "warm"}, '"cache_dir" is the folder'),
        ({"workload": "fallback.mlp", "cache_dir": "/x"}, '"cache_dir" is the folder'),
    ],
)
def test_bad_requests_name_the_field(raw: dict[str, Any], says: str) -> None:
    full = {"format": 1, **raw} if raw else raw
    with pytest.raises(BadRequest, match=says):
        launch = parse_launch(full)
        if launch.workload and not launch.is_users:
            find(launch)


VALUES = hypothesis.strategies.recursive(
    hypothesis.strategies.none()
    | hypothesis.strategies.booleans()
    | hypothesis.strategies.integers()
    | hypothesis.strategies.floats()
    | hypothesis.strategies.text(max_size=9)
    | hypothesis.strategies.sampled_from(["cold", "cpu", "fallback.mlp", "python:a:b", "/tmp"]),
    lambda inner: (
        hypothesis.strategies.lists(inner, max_size=3)
        | hypothesis.strategies.dictionaries(
            hypothesis.strategies.sampled_from(["name", "path", "read", "width", "write"]), inner
        )
    ),
    max_leaves=5,
)


@hypothesis.settings(max_examples=300, deadline=None, database=None)
@hypothesis.given(
    hypothesis.strategies.dictionaries(
        hypothesis.strategies.sampled_from(sorted(FIELDS)), VALUES, max_size=5
    )
)
def test_any_request_is_taken_or_refused(raw: dict[str, Any]) -> None:
    try:
        launch = parse_launch({"workload": "fallback.mlp", **raw, "format": 1})
    except BadRequest as error:
        assert str(error).strip()
    else:
        assert launch.iterations >= 1 and (launch.command is None) != (launch.workload is None)


def test_a_result_without_a_folder_is_refused(place: Place) -> None:
    program = """
        from crosscheck_probe.workload import __main__
        __main__.leave(__main__.main(["request.json", "none/result.json"]))
    """
    launched = place.launch({"workload": "fallback.mlp"}, program)
    assert launched.code == 2 and "folder does not exist" in launched.output


def test_a_device_of_the_users_own(place: Place, refdev: str) -> None:
    device = {"name": "refdev", "module": "refdev", "path": refdev}
    for phase in ("inference", "training"):
        result = place.result(
            {"workload": "fallback.mlp", "device": device, "phase": phase, **EVERYTHING}
        )
        sound(result, 1e-5)


def test_a_wrong_request_exits_2_without_a_result(place: Place) -> None:
    launched = place.launch({"workload": "fallback.mlp", "size": "huge"})
    assert (launched.code, launched.found) == (2, None)
    assert '"size" must be one of small, medium, large' in launched.output


def test_what_is_seen_to_be_missing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    versions = {"torch": "2.5.1+cpu"}
    monkeypatch.setattr(catalogue, "_version_of", versions.get)
    assert not catalogue.is_missing("torch >= 2.5")
    assert catalogue.is_missing("torch >= 2.6 with gloo, or NCCL")
    assert catalogue.is_missing("torchcomms")
    assert not catalogue.is_missing("an ownership record"), "nobody can see it"
    versions.clear()
    assert catalogue.is_missing("torch.nn.LinearCrossEntropyLoss")
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("CXX", raising=False)
    assert catalogue.is_missing("a C++ compiler")


def test_the_list_is_the_library() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "crosscheck_probe.workload", "--list"],
        env={**os.environ, "PYTHONPATH": str(PROBE / "src")},
        capture_output=True,
        text=True,
        check=True,
    )
    listed = [json.loads(line) for line in done.stdout.splitlines()]
    assert [one["name"] for one in listed] == list(CASES)
    for one in listed:
        assert set(one["sizes"]) == {"small", "medium", "large"}
        assert one["phases"] and one["what"] and one["lane"] == one["name"].split(".")[0]


def test_training_of_a_library_case_measures_everything(place: Place) -> None:
    result = place.result(
        {
            "workload": "fallback.mlp",
            "phase": "training",
            "warmup": 2,
            "iterations": 4,
            "threads": 1,
            "cpus": [min(os.sched_getaffinity(0))],
            "measure": list(MEASURES),
        }
    )
    assert result["status"] == "ok", result["traceback"]
    assert [one["warmup"] for one in result["iterations"]] == [True] * 2 + [False] * 4
    assert all(one["wall_s"] > 0 for one in result["iterations"])
    assert result["threads"] == {"intra": 1, "inter": 1}
    assert result["cpus"] == [min(os.sched_getaffinity(0))]
    assert (result["items_per_iteration"], result["unit"]) == (16, "samples")
    assert result["first_run_s"] > 0 and result["restart_s"] > 0
    assert result["peak_memory_bytes"] >= result["memory_before_bytes"] > 0
    assert result["output"]["rmse"] < 1e-6 and result["output"]["dtype"] == ["float32"]
    assert result["gradients"]["rmse"] < 1e-6 and result["gradients"]["cosine"] > 0.999999
    assert result["determinism"] == {
        "runs": 5,
        "forward_mismatches": 0,
        "backward_mismatches": 0,
        "shape_mismatches": 0,
    }
    assert result["metric"]["name"] == "loss_after_5_steps"
    assert 0 < result["metric"]["value"] < 1
    assert result["checkpoint"]["ok"], result["checkpoint"]["reason"]
    assert result["versions"]["torch"] and result["build"]["flags"]
    assert "PATH" not in result["environment"]
    assert result["counters"] is None


def test_a_device_that_is_missing_is_not_run(place: Place) -> None:
    import torch

    if torch.cuda.is_available():
        pytest.skip("it is there")
    names = ("cuda", "rocm", "mps")
    launched = place.results(
        [{"workload": "fallback.mlp", "device": {"name": name}} for name in names]
    )
    for one in launched:
        assert one.code == 0 and one.found is not None, one.output
        assert one.found["status"] == "not_run"
        assert any(word in one.found["reason"] for word in ("CUDA", "ROCm", "MPS"))


def test_a_users_workload(place: Place) -> None:
    place.write(
        "mine.py",
        """
        import torch

        class Mine:
            items, unit = 7, "tokens"
            def __init__(self, settings):
                self.scale = settings["shape"]["scale"]
            def setup(self):
                self.count = 0
            def inference(self):
                print("garbage \\x00\\xff {}]")
                self.count += 1
                return {"b": torch.full((2,), float(self.count * self.scale)), "a": 1}
            def reference(self):
                return {"output": {"a": 1, "b": torch.full((2,), 3.0, dtype=torch.float64)}}
            def metric(self):
                return {"name": "count", "value": self.count, "higher_is_better": True}
            def state_dict(self):
                return {"count": torch.tensor(self.count)}
            def load_state_dict(self, state):
                self.count = int(state["count"])

        def make(settings):
            return Mine(settings)
        """,
    )
    folder = place.root / "checkpoint"
    request = {
        "workload": "python:mine:make",
        "shape": {"scale": 3},
        "warmup": 1,
        "iterations": 2,
        "measure": ["correctness", "determinism"],
    }
    result = place.result({**request, "checkpoint": {"write": str(folder)}})
    assert result["status"] == "ok", result["traceback"]
    assert (result["items_per_iteration"], result["unit"]) == (7, "tokens")
    assert result["metric"] == {"name": "count", "value": 4.0, "higher_is_better": True}
    assert (result["output"]["rmse"], result["output"]["shape"]) == (0.0, [[2]])
    assert result["checkpoint"]["wrote"] == str(folder) and result["checkpoint"]["ok"]
    read = place.result({**request, "checkpoint": {"read": str(folder)}, "measure": []})
    assert read["checkpoint"]["ok"], read["checkpoint"]["reason"]
    assert read["checkpoint"]["digest"] == result["checkpoint"]["digest"]
    (folder / "checkpoint.pt").write_bytes(b"nonsense")
    broken = place.result({**request, "checkpoint": {"read": str(folder)}, "measure": []})
    assert not broken["checkpoint"]["ok"] and broken["checkpoint"]["reason"]


BAD = """
    import os, signal, sys, time
    import torch

    class Base:
        def setup(self): self.n = 0
        def inference(self):
            self.n += 1
            return torch.ones(2)

    class Raises(Base):
        def inference(self): raise RuntimeError("boom\\nand more")
    class Exits(Base):
        def inference(self): sys.exit(0)
    class Nan(Base):
        def inference(self): return torch.tensor([1.0, float("nan")])
    class LateNan(Base):
        def inference(self):
            self.n += 1
            return torch.tensor(float("nan") if self.n > 4 else 1.0)
    class Unsupported(Base):
        def inference(self): raise NotImplementedError("no such kernel")
    class Memory(Base):
        def inference(self): raise MemoryError("out of memory")
    calls = 0
    class Shapes(Base):
        def inference(self):
            global calls
            calls += 1
            return torch.ones(2 + calls % 2)
    class Random(Base):
        def setup(self): torch.seed()
        def inference(self): return torch.rand(3)
    class Nothing: pass
    class Crashes(Base):
        def inference(self): os.kill(os.getpid(), signal.SIGSEGV)
    class Hangs(Base):
        def inference(self):
            while True: time.sleep(0.1)
    class Slow(Base):
        def inference(self):
            time.sleep(0.02)
            return torch.ones(2)
    class Missing(Base):
        def setup(self): import torch_of_tomorrow
"""


FAILURES = [
    ("Raises", "failed", "exception", "RuntimeError: boom"),
    ("Exits", "failed", "exception", "SystemExit: 0"),
    ("Nan", "failed", "nan", "the first run's output holds 1 NaN"),
    ("LateNan", "failed", "nan", "the last iteration's output holds 1 NaN"),
    ("Unsupported", "failed", "unsupported", "NotImplementedError: no such kernel"),
    ("Memory", "failed", "out_of_memory", "MemoryError: out of memory"),
    ("Missing", "failed", "exception", "ModuleNotFoundError"),
    ("Nothing", "not_run", None, "the workload has no inference()"),
]


def test_how_workloads_fail(place: Place) -> None:
    place.write("bad.py", BAD)
    launched = place.results(
        [
            {"workload": f"python:bad:{function}", "warmup": 0, "iterations": 6}
            for function, *_ in FAILURES
        ]
    )
    for (function, status, mode, says), one in zip(FAILURES, launched):
        assert one.code == 0 and one.found is not None, one.output
        assert (one.found["status"], one.found["failure_mode"]) == (status, mode), function
        assert one.found["reason"].startswith(says)
        assert len(one.found["traceback"].splitlines()) <= 20
        assert bool(one.found["traceback"]) == (status == "failed")


def test_what_is_not_the_same_twice_is_counted(place: Place) -> None:
    place.write("bad.py", BAD)
    shapes, random = (
        one.found["determinism"]
        for one in place.results(
            [
                {
                    "workload": f"python:bad:{function}",
                    "warmup": 0,
                    "iterations": 1,
                    "measure": ["determinism"],
                }
                for function in ("Shapes", "Random")
            ]
        )
        if one.found is not None
    )
    assert shapes["forward_mismatches"] and shapes["shape_mismatches"]
    assert random["forward_mismatches"] == 4 and not random["shape_mismatches"]


def test_a_time_limit_stops_after_the_iteration(place: Place) -> None:
    place.write("bad.py", BAD)
    request = {"workload": "python:bad:Slow", "warmup": 1, "iterations": 100_000}
    result = place.result({**request, "time_limit_s": 0.2})
    assert result["status"] == "ok" and result["stopped_early"]
    assert 1 <= len(result["iterations"]) < 100


def test_a_crash_leaves_no_result(place: Place) -> None:
    place.write("bad.py", BAD)
    launched = place.launch({"workload": "python:bad:Crashes"})
    assert (launched.code, launched.found) == (-signal.SIGSEGV, None)


def test_a_hang_is_ended_and_says_where(place: Place) -> None:
    place.write("bad.py", BAD)
    program = """
        import sys
        from crosscheck_probe.workload import __main__, launch
        launch.GRACE_S = 0.2
        __main__.leave(__main__.main())
    """
    request = {"workload": "python:bad:Hangs", "time_limit_s": 4}
    launched = place.launch(request, program)
    assert launched.code == 0 and launched.found is not None, launched.output
    check_schema(launched.found)
    assert launched.found["failure_mode"] == "timeout"
    assert "in inference" in launched.found["traceback"]


@pytest.mark.parametrize(
    ("workload", "code", "says"),
    [
        ("python:nowhere_at_all:make", 4, "the module nowhere_at_all is not found"),
        ("python:bad:nothing_such", 2, '"workload": bad has no function nothing_such'),
    ],
)
def test_a_function_that_is_missing(place: Place, workload: str, code: int, says: str) -> None:
    place.write("bad.py", BAD)
    launched = place.launch({"workload": workload})
    assert (launched.code, launched.found) == (code, None)
    assert says in launched.output


@pytest.mark.parametrize(
    ("command", "status", "mode", "says"),
    [
        (["sh", "-c", "echo same"], "ok", None, ""),
        (["sh", "-c", "exit 3"], "failed", "exit_status", "the command exited 3"),
        (["sh", "-c", "kill -9 $$"], "failed", "signal", "the command died of signal 9"),
        (["/no/such/program"], "failed", "exception", "FileNotFoundError"),
    ],
)
def test_commands(
    place: Place, command: list[str], status: str, mode: str | None, says: str
) -> None:
    result = place.result(
        {"command": command, "warmup": 1, "iterations": 2, "measure": ["determinism"]}
    )
    assert (result["status"], result["failure_mode"]) == (status, mode)
    assert result["reason"].startswith(says)
    if status == "ok":
        assert len(result["iterations"]) == 3
        assert result["determinism"]["forward_mismatches"] == 0
        assert result["peak_memory_bytes"] > 0


def test_what_a_command_leaves_running_is_ended(place: Place) -> None:
    result = place.result(
        {"command": ["sh", "-c", "sleep 1000 & echo on"], "warmup": 0, "iterations": 1}
    )
    assert result["status"] == "ok", result["traceback"]


def test_what_a_command_started_goes_with_a_launch_that_is_killed(place: Place) -> None:
    # What it starts holds the pipe open as long as it lives.
    os.mkfifo(place.root / "pipe")
    place.write("child.sh", "exec 3>pipe; sleep 1000 & echo started >&3; wait")
    process = place.begin({"command": ["sh", "child.sh"]})
    with open(place.root / "pipe", "rb") as pipe:
        assert pipe.readline() == b"started\n"
        process.kill()
        process.communicate()
        assert pipe.read() == b""


def sound(result: dict[str, Any], tolerance: float) -> None:
    """What every library case that runs on this machine must say."""
    assert result["status"] == "ok", (result["reason"], result["traceback"])
    assert result["items_per_iteration"] > 0 and result["peak_memory_bytes"] > 0
    for part in ("output", "gradients"):
        found = result[part]
        if found is not None:
            assert (found["nan"], found["inf"]) == (0, 0)
            assert found["rmse"] is None or found["rmse"] <= tolerance, (part, found)
    counts = result["determinism"]
    assert counts["forward_mismatches"] + counts["shape_mismatches"] == 0
    assert counts["backward_mismatches"] == 0
    assert result["checkpoint"] is None or result["checkpoint"]["ok"], result["checkpoint"]


EVERYTHING = {
    "warmup": 1,
    "iterations": 2,
    "determinism_runs": 2,
    "measure": list(MEASURES),
}


def test_eager_lanes_agree_with_their_references(place: Place) -> None:
    cases = [
        (name, phase)
        for name, case in CASES.items()
        if case.lane in ("attention", "checkpoint", "memory") and not case.compiled
        for phase in case.phases
        if name.endswith(("causal", "training", "entropy"))
    ]
    launched = place.results(
        [{"workload": name, "phase": phase, **EVERYTHING} for name, phase in cases]
    )
    outputs = {}
    for (name, phase), one in zip(cases, launched):
        assert one.found is not None, one.output
        sound(one.found, 5e-2 if "mixed" in name else 1e-5)
        outputs[name, phase] = one.found
    fused = outputs["attention.sdpa_causal", "inference"]["fallback"]
    assert not fused["silent"] and "flash" in fused["how"]


def test_a_silent_fallback_is_seen(place: Place) -> None:
    program = """
        from torch.nn import functional as F
        from torch.nn.attention import SDPBackend, sdpa_kernel
        fused = F.scaled_dot_product_attention
        def plain(*a, **k):
            with sdpa_kernel(SDPBackend.MATH):
                return fused(*a, **k)
        F.scaled_dot_product_attention = plain
        from crosscheck_probe.workload import __main__
        __main__.leave(__main__.main())
    """
    launched = place.launch({"workload": "attention.sdpa_causal", "iterations": 1}, program)
    assert launched.found is not None, launched.output
    assert launched.found["fallback"]["silent"], launched.found["fallback"]
    assert "math" in launched.found["fallback"]["how"]


def test_a_killed_rank_is_noticed_and_started_again(place: Place) -> None:
    result = place.result(
        {
            "workload": "distributed.ddp",
            "phase": "training",
            "warmup": 1,
            "iterations": 4,
            "kill_rank": 1,
            "time_limit_s": 60,
            "measure": ["correctness"],
        }
    )
    assert result["status"] == "ok", result["traceback"]
    assert result["recovery"]["killed"] == 1 and result["recovery"]["ok"], result["recovery"]
    assert 0 < result["recovery"]["detected_s"] < result["recovery"]["restarted_s"]
    assert len(result["ranks"]) == 2
    assert all(one["wall_s"] > 0 and one["wait_s"] >= 0 for one in result["ranks"])
    assert result["gradients"]["rmse"] < 1e-6


def ranks_of(process: subprocess.Popen[str], place: Place, ranks: int) -> list[int]:
    """Waits until all ranks of a launch have done their first run; returns their process ids."""
    deadline = time.monotonic() + DEADLINE
    while time.monotonic() < deadline:
        notes = sorted(place.root.glob("crosscheck-ranks-*/whole/first-*.json"))
        if len(notes) == ranks:
            return [json.loads(note.read_text())["pid"] for note in notes]
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    raise AssertionError("the ranks do not start")


def gone(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            return file.read().rsplit(")", 1)[1].split()[0] == "Z"
    except FileNotFoundError:
        return True


FOREVER = {"workload": "communication.all_reduce", "iterations": 1_000_000}


def test_ranks_go_with_a_launch_that_is_killed(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(place.root))
    process = place.begin(FOREVER)
    pids = ranks_of(process, place, 2)
    process.kill()
    process.communicate()
    deadline = time.monotonic() + DEADLINE
    while not all(map(gone, pids)):
        assert time.monotonic() < deadline, "a rank lives on"
        time.sleep(0.05)


def test_a_rank_that_dies_unasked_fails_the_launch(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(place.root))
    process = place.begin(FOREVER)
    os.kill(ranks_of(process, place, 2)[1], signal.SIGKILL)
    output, _ = process.communicate(timeout=DEADLINE)
    assert process.returncode == 0, output
    result = json.loads((place.root / "result.json").read_text())
    check_schema(result)
    assert (result["failure_mode"], result["reason"]) == (
        "rank_lost",
        "rank 1 died of signal 9, and rank 1 has no result",
    )


GRAPHS = """
    import torch

    class Breaks:
        compiled = True
        def setup(self):
            def run(x):
                x = x + 1
                print("seen")
                return x * 2
            self.run = torch.compile(run, backend="eager")
        def inference(self): return self.run(torch.ones(3))
        def export(self): return Unexportable(), (torch.ones(3),)

    class Recompiles:
        n = 0
        def setup(self): self.run = torch.compile(lambda x: x + 1, backend="eager", dynamic=False)
        def inference(self):
            self.n += 1
            return self.run(torch.ones(min(self.n, 3)))

    class Unexportable(torch.nn.Module):
        def forward(self, x):
            if x.sum() > 0:
                return x + 1
            return x - 1
"""


def test_graph_breaks_recompiles_and_a_failing_export_are_counted(place: Place) -> None:
    place.write("graphs.py", GRAPHS)
    breaks, recompiles = place.results(
        [
            {
                "workload": f"python:graphs:{name}",
                "warmup": 1,
                "iterations": 4,
                "measure": ["compile_export"],
            }
            for name in ("Breaks", "Recompiles")
        ]
    )
    assert breaks.found is not None and recompiles.found is not None
    assert breaks.found["status"] == "ok", breaks.found["traceback"]
    assert breaks.found["counters"]["graph_breaks"] >= 1
    assert breaks.found["export"]["export"]["ok"] is False
    assert breaks.found["export"]["export"]["reason"]
    assert recompiles.found["counters"] == {
        "graph_breaks": 0,
        "recompiles": 2,
        "captured_calls": 3,
        "unique_graphs": 3,
    }


def test_the_preflight_tells_the_machine() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "crosscheck_probe.workload", "--preflight"],
        env={**os.environ, "PYTHONPATH": str(PROBE / "src")},
        capture_output=True,
        text=True,
        check=True,
    )
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["versions"]["torch"] and found["build"]["blas"] and found["build"]["flags"]
    assert set(found["devices"]) == {"cpu", "cuda", "rocm", "mps"}
    for device in found["devices"].values():
        assert device["available"] == (device["reason"] == "") == (device["count"] > 0)
    assert found["memory"]["total_bytes"] > found["memory"]["available_bytes"] > 0
