"""The request: what to collect or run, checked before anything is imported."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass, field
from typing import Any

OBSERVERS = ("dispatch-mode", "record-function", "compiled")


class BadRequest(Exception):
    """The request cannot be carried out as written; the text says why."""


@dataclass(frozen=True)
class Device:
    name: str = "cpu"
    module: str | None = None
    path: str | None = None


@dataclass(frozen=True)
class Suite:
    """`files` are relative to `root`, an absolute folder."""

    name: str
    root: str
    files: tuple[str, ...]


@dataclass(frozen=True)
class Trace:
    """`library`: of the observer `record-function`, as the verb `observer` built it.

    For the verb `observer` the observer may also be `auto`."""

    observer: str
    library: str | None = None


@dataclass(frozen=True)
class Request:
    device: Device = field(default_factory=Device)
    suite: Suite | None = None
    file: str | None = None
    tests: tuple[str, ...] | None = None
    repeat: int = 1
    trace: Trace | None = None


def bundled_root() -> str:
    return os.path.join(os.path.dirname(os.path.abspath(__file__)), "suite")


def read_request(source: str | None) -> dict[str, Any]:
    """Reads the request from a file, from standard input for `-`; none is an empty one."""
    if source is None:
        return {}
    try:
        if source == "-":
            text = sys.stdin.read()
        else:
            with open(source, encoding="utf-8") as file:
                text = file.read()
        found = json.loads(text)
    except (OSError, ValueError) as error:
        raise BadRequest(f"the request {source!r} cannot be read: {error}") from error
    if not isinstance(found, dict):
        raise BadRequest("the request must be a JSON object")
    return found


def parse_request(verb: str, raw: dict[str, Any]) -> Request:
    """Checks `raw` for `verb`. Unknown keys are ignored, so that the runner may be newer."""
    device = parse_device(raw)
    if verb == "environment":
        suite = _parse_suite(raw["suite"]) if "suite" in raw else None
        return Request(device=device, suite=suite)
    if verb == "observer":
        wanted = _member(raw, "observer", str)
        if wanted not in ("auto", *OBSERVERS[:2]):
            raise BadRequest(f'"observer" must be auto, {" or ".join(OBSERVERS[:2])}')
        return Request(device=device, trace=Trace(wanted))
    suite = _parse_suite(_member(raw, "suite", dict))
    if verb == "collect":
        return Request(device=device, suite=suite)
    file = _inside(_member(raw, "file", str))
    if not os.path.isfile(os.path.join(suite.root, file)):
        raise BadRequest(f"{file!r} is no file under {suite.root!r}")
    repeat = raw.get("repeat", 1)
    if not isinstance(repeat, int) or isinstance(repeat, bool) or repeat < 1:
        raise BadRequest('"repeat" must be a whole number of at least 1')
    tests = None if raw.get("tests") is None else _texts(raw, "tests")
    trace = _parse_trace(raw["trace"]) if raw.get("trace") is not None else None
    return Request(device, suite, file, tests, repeat, trace)


def parse_device(request: dict[str, Any]) -> Device:
    raw = request.get("device", {"name": "cpu"})
    if not isinstance(raw, dict):
        raise BadRequest('"device" must be an object')
    setup = raw.get("setup") or {}
    if not isinstance(setup, dict):
        raise BadRequest('"device.setup" must be an object')
    setup = {**raw, **setup}
    for key in ("module", "path"):
        if not isinstance(setup.get(key, ""), str):
            raise BadRequest(f'"device.setup.{key}" must be a text')
    name = _member(raw, "name", str)
    return Device(name, setup.get("module") or None, setup.get("path") or None)


def _parse_suite(raw: Any) -> Suite:
    if not isinstance(raw, dict):
        raise BadRequest('"suite" must be an object')
    name = _member(raw, "name", str)
    if name == "bundled":
        root = bundled_root()
    elif name == "tree":
        root = _member(raw, "root", str)
        if not os.path.isabs(root) or not os.path.isdir(root):
            raise BadRequest(f'"suite.root" must be an absolute path of a folder, not {root!r}')
    else:
        raise BadRequest(f'"suite.name" must be bundled or tree, not {name!r}')
    root = os.path.realpath(root)
    if raw.get("files") is not None:
        files = tuple(_inside(f) for f in _texts(raw, "files"))
    elif name == "bundled":
        files = tuple(sorted(f for f in os.listdir(root) if _is_test_file(f)))
    else:
        raise BadRequest('"suite.files" must name the files of a tree')
    for file in files:
        if not os.path.isfile(os.path.join(root, file)):
            raise BadRequest(f"{file!r} is no file under {root!r}")
    return Suite(name, root, files)


def _parse_trace(raw: Any) -> Trace:
    if not isinstance(raw, dict):
        raise BadRequest('"trace" must be an object')
    observer = _member(raw, "observer", str)
    if observer not in OBSERVERS:
        raise BadRequest(f'"trace.observer" must be one of {", ".join(OBSERVERS)}')
    library = raw.get("library")
    if observer == "record-function" and not isinstance(library, str):
        raise BadRequest('"trace.library" must name the built observer')
    return Trace(observer, library)


def _is_test_file(name: str) -> bool:
    return name.startswith("test_") and name.endswith(".py")


def _inside(path: str) -> str:
    clean = os.path.normpath(path)
    if os.path.isabs(clean) or clean.split(os.sep)[0] == os.pardir:
        raise BadRequest(f"{path!r} must lie under the suite's root")
    return clean


def _member(raw: dict[str, Any], key: str, kind: type) -> Any:
    value = raw.get(key)
    if not isinstance(value, kind) or not value:
        what = "a text" if kind is str else "an object"
        raise BadRequest(f'"{key}" is missing, or not {what}')
    return value


def _texts(raw: dict[str, Any], key: str) -> tuple[str, ...]:
    value = raw.get(key)
    if not isinstance(value, list) or not all(isinstance(v, str) for v in value):
        raise BadRequest(f'"{key}" must be a list of texts')
    return tuple(value)
