"""The observer in C++: builds it for the installed torch, once, and speaks to it."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import json
import os
import shutil
import subprocess
import tempfile
from contextlib import nullcontext
from typing import Any

from crosscheck_probe.support import generated_from, native_functions

_SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "observer.cc")
_BUILD_LIMIT = 600.0


class CannotBuild(Exception):
    """The text says what is missing, and how to get it."""


class FunctionRecorder:
    """Sees every operator that torch's dispatcher runs: composites, those inside kernels, and those
    of other threads."""

    def __init__(self, library: str) -> None:
        # PyDLL: the calls are too short to be worth giving up Python's lock for.
        self._library = ctypes.PyDLL(library)
        self._library.crosscheck_take.restype = ctypes.c_char_p
        phase = memoryview(ctypes.c_int.in_dll(self._library, "crosscheck_phase"))
        # A store into its memory: it is called around every comparison.
        self.enter = functools.partial(phase.cast("B").cast("i").__setitem__, 0)
        self._library.crosscheck_observe()

    def recording(self) -> Any:
        return nullcontext()

    def take(self) -> dict[str, dict[str, int]]:
        taken: dict[str, dict[str, int]] = json.loads(self._library.crosscheck_take())
        return taken

    def graphs(self) -> list[dict[str, Any]]:
        return []


def build() -> str:
    """Returns the library for the torch of this process, building it where there is none yet.

    It lies in $XDG_CACHE_HOME/crosscheck/observers under a name that torch's version, the compiler
    and the source make.
    """
    import torch

    compiler = shutil.which(os.environ.get("CXX", "")) or shutil.which("c++") or shutil.which("g++")
    if compiler is None:
        raise CannotBuild("there is no C++ compiler: apt-get install g++, or name one in CXX")
    version = _run([compiler, "--version"]).splitlines()[:1]
    with open(_SOURCE, "rb") as file:
        source = file.read()
    made_of = [str(torch.__version__), str(torch.version.git_version), *version]
    key = hashlib.sha256("\0".join(made_of).encode() + b"\0" + source).hexdigest()[:24]
    folder = os.path.join(_cache(), "crosscheck", "observers")
    library = os.path.join(folder, f"{key}.so")
    if os.path.exists(library):
        return library
    try:
        os.makedirs(folder, exist_ok=True)
        handle, fresh = tempfile.mkstemp(suffix=".so", dir=folder)
        os.close(handle)
    except OSError as error:
        raise CannotBuild(f"{folder} cannot be written to: {error.strerror}") from error
    try:
        _run([compiler, *_flags(torch), _SOURCE, "-o", fresh, *_libraries()])
        os.replace(fresh, library)
    finally:
        if os.path.exists(fresh):
            os.unlink(fresh)
    return library


def _flags(torch: Any) -> list[str]:
    flags = ["-std=c++20", "-O2", "-fPIC", "-shared", "-w"]
    flags.append(f"-D_GLIBCXX_USE_CXX11_ABI={int(torch._C._GLIBCXX_USE_CXX11_ABI)}")
    own = os.path.join(os.path.dirname(torch.__file__), "include")
    return [*flags, "-isystem", own] if os.path.isdir(own) else flags


def _libraries() -> list[str]:
    """Those of torch that this process has loaded: the observer must be linked to the same."""
    found = {}
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
        for line in maps:
            path = line.split(None, 5)[-1].strip()
            name = os.path.basename(path).split(".so")[0]
            if name in ("libtorch_cpu", "libc10"):
                found[name] = path
    return sorted(found.values())


def _run(command: list[str]) -> str:
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_BUILD_LIMIT, check=False
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise CannotBuild(f"{command[0]} cannot be run: {error}") from error
    if done.returncode != 0:
        reason = next((line for line in done.stderr.splitlines() if "error" in line), "it failed")
        if "ATen/record_function.h" in reason:
            raise CannotBuild("torch's C++ headers are not there: apt-get install libtorch-dev")
        raise CannotBuild(f"{command[0]}: {reason.strip()}")
    return done.stdout


def _cache() -> str:
    return os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")


def prepare(wanted: str) -> dict[str, Any]:
    """Returns the fields of the `observer` line. `wanted`: an observer, or "auto".

    Raises CannotBuild where only the observer in C++ would do.
    """
    described: dict[str, Any] = {"observer": "dispatch-mode"}
    if wanted != "dispatch-mode":
        try:
            described = {"observer": "record-function", "library": build()}
        except CannotBuild as error:
            if wanted != "auto":
                raise
            described["note"] = f"the observer in C++ cannot be built: {error}"
    names = _operators()
    described["composites"] = sorted(name for name in names if _is_composite(name))
    described["aliases"] = _aliases({name.split(".")[0] for name in names})
    described["delegates"] = {
        name: callees[0]
        for name, (how, callees) in generated_from(native_functions()).items()
        if how == "structured_delegate"
    }
    return described


def _operators() -> list[str]:
    import torch

    listed = getattr(torch._C, "_dispatch_get_all_op_names", None)
    if listed is not None:
        return list(listed())
    schemas = torch._C._jit_get_all_schemas()
    return [f"{s.name}.{s.overload_name}" if s.overload_name else s.name for s in schemas]


def _is_composite(name: str) -> bool:
    """Whether torch makes it of other operators, whatever the device: those are seen as well."""
    import torch

    try:
        return bool(
            torch._C._dispatch_has_kernel_for_dispatch_key(name, "CompositeImplicitAutograd")
        )
    except RuntimeError:
        return False  # TorchScript's own


def _aliases(operators: set[str]) -> dict[str, str]:
    """Names for the same operator, as torch's own table for tests has them."""
    try:
        from torch.testing._internal.common_methods_invocations import op_db
    except Exception:
        return {}  # its imports are not all needed to run tests
    aliases = {}
    for op in op_db:
        name = _in_aten(op.aten_name or op.name)
        for alias in (_in_aten(alias.name) for alias in op.aliases):
            if alias != name and alias in operators and name in operators:
                aliases[alias] = name
    return aliases


def _in_aten(name: str) -> str:
    return "aten::" + name.replace(".", "_")
