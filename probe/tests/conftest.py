"""Runs the probe as the runner does: a process, a pipe, JSON lines."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable

import pytest

PROBE = Path(__file__).resolve().parents[1]
PROGRAM = PROBE / "src" / "crosscheck_probe" / "__main__.py"
DEADLINE = 240.0
collect_ignore = [] if os.environ.get("CROSSCHECK_LONG") else ["test_workload_long.py"]


@dataclass
class Answer:
    """What one probe said. `code`: exit status, negative for a signal."""

    lines: list[dict[str, Any]]
    code: int
    output: str

    def of(self, *kinds: str) -> list[dict[str, Any]]:
        return [line for line in self.lines if line["ev"] in kinds]

    def finishes(self) -> dict[str, dict[str, Any]]:
        """The finish lines, keyed by the last part of the node id."""
        return {line["node"].split("::")[-1]: line for line in self.of("finish")}


def ask(
    verb: str,
    request: dict[str, Any] | None = None,
    environment: dict[str, str] | None = None,
    paths: tuple[str, ...] = (),
) -> Answer:
    """Starts the probe, reads its pipe to the end and waits for it."""
    read, write = os.pipe()
    variables = {k: v for k, v in os.environ.items() if k not in ("REFDEV_CONFIG", "PYTHONPATH")}
    variables["PYTHONPATH"] = os.pathsep.join([*paths, str(PROBE / "src")])
    variables["OMP_NUM_THREADS"] = "1"
    variables.update(environment or {})
    process = subprocess.Popen(
        [
            sys.executable,
            *(["-P"] if sys.version_info >= (3, 11) else []),
            *[str(PROGRAM), verb, "--fd", str(write), "--request", "-"],
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        pass_fds=[write],
        env=variables,
    )
    os.close(write)
    received: list[bytes] = []

    def drain() -> None:
        with os.fdopen(read, "rb") as pipe:
            received.append(pipe.read())

    reader = threading.Thread(target=drain)
    reader.start()
    try:
        output, _ = process.communicate(json.dumps(request or {}).encode(), timeout=DEADLINE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        raise
    reader.join()
    text = received[0].decode("utf-8")
    assert text == "" or text.endswith("\n"), "the last line is not whole"
    return Answer(
        [json.loads(line) for line in text.splitlines()], process.returncode, output.decode()
    )


@dataclass
class Tree:
    """A folder of test files written for one test."""

    root: Path

    def write(self, name: str, text: str) -> str:
        (self.root / name).write_text(textwrap.dedent(text), encoding="utf-8")
        return name

    def collect(self, *files: str, **how: Any) -> Answer:
        device = how.pop("device", {"name": "cpu"})
        suite = {"name": "tree", "root": str(self.root), "files": list(files)}
        return ask("collect", {"suite": suite, "device": device}, **how)

    def run(
        self,
        file: str,
        tests: list[str] | None = None,
        repeat: int = 1,
        device: dict[str, Any] | None = None,
        **how: Any,
    ) -> Answer:
        request = {
            "suite": {"name": "tree", "root": str(self.root), "files": [file]},
            "device": device or {"name": "cpu"},
            "file": file,
            "repeat": repeat,
        }
        if tests is not None:
            request["tests"] = [f"{file}::{test}" for test in tests]
        return ask("run", request, **how)


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


@pytest.fixture(scope="session")
def shared_tree(tmp_path_factory: pytest.TempPathFactory) -> Tree:
    return Tree(tmp_path_factory.mktemp("tree"))


@pytest.fixture(scope="session")
def refdev() -> str:
    """The folder with the built reference device."""
    path = os.environ.get("CROSSCHECK_REFDEV") or str(PROBE.parent / "build" / "refdev")
    if not os.path.exists(os.path.join(path, "refdev", "librefdev.so")):
        pytest.skip(f"{path} is not built: examples/reference_device/build.sh PYTHON {path}")
    return path


@pytest.fixture(scope="session")
def refdev_device(refdev: str) -> dict[str, Any]:
    return {"name": "refdev", "setup": {"module": "refdev", "path": refdev}}


@pytest.fixture
def configured(tmp_path: Path) -> Callable[[dict[str, Any]], dict[str, str]]:
    """Writes a configuration of the reference device; returns the variables that name it."""

    def write(configuration: dict[str, Any]) -> dict[str, str]:
        path = tmp_path / "refdev.json"
        path.write_text(json.dumps(configuration))
        return {"REFDEV_CONFIG": str(path)}

    return write
