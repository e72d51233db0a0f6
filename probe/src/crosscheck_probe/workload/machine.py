"""Where a launch runs: versions, build, processors, load. Recorded, never judged here."""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
import platform
import shutil
import subprocess
import sys
from typing import Any

from crosscheck_probe.environment import VARIABLES, blas_of

_VARIABLES = (
    *VARIABLES,
    "CUDA_VISIBLE_DEVICES",
    "GLOO_SOCKET_IFNAME",
    "HIP_VISIBLE_DEVICES",
    "KMP_AFFINITY",
    "KMP_BLOCKTIME",
    "MALLOC_ARENA_MAX",
    "MKL_CBWR",
    "NVIDIA_TF32_OVERRIDE",
    "OMP_PROC_BIND",
    "PYTORCH_CUDA_ALLOC_CONF",
    "PYTORCH_ENABLE_MPS_FALLBACK",
    "TORCHINDUCTOR_COMPILE_THREADS",
    "TORCHINDUCTOR_FREEZING",
)
_PACKAGES = ("numpy", "torchcomms", "triton", "nvidia-cutlass-dsl")


def versions() -> dict[str, Any]:
    """Returns versions as the imported torch tells them, or its package where it is not loaded."""
    found: dict[str, Any] = {
        "python": platform.python_version(),
        "torch": package_version("torch"),
        "git": None,
        "cuda": None,
        "hip": None,
    }
    torch = sys.modules.get("torch")
    if torch is not None:
        version = torch.version
        found["torch"] = str(torch.__version__)
        for key, attribute in (("git", "git_version"), ("cuda", "cuda"), ("hip", "hip")):
            found[key] = getattr(version, attribute, None) or None
    for package in _PACKAGES:
        found[package] = package_version(package)
    return found


def package_version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def build(ask_compiler: bool = False) -> dict[str, Any]:
    """Returns what torch was built with.

    `vector_isa`: the one that compiled code is made for. Finding it out runs a compiler for
    seconds, which only `ask_compiler` does.
    """
    import torch

    shown = torch.__config__.show()
    capability = getattr(getattr(torch.backends, "cpu", None), "get_cpu_capability", None)
    flags = [
        line.strip(" -").split("Build settings:", 1)[1].strip(" ,")
        for line in shown.splitlines()
        if "Build settings:" in line
    ]
    openmp = [line.strip(" -") for line in shown.splitlines() if "OpenMP" in line]
    return {
        "blas": blas_of(torch),
        "vector_isa": vector_isa() if ask_compiler else None,
        "cpu_capability": None if capability is None else str(capability()),
        "openmp": openmp[0] if openmp else None,
        "flags": flags[0] if flags else "",
    }


def vector_isa() -> str | None:
    """Returns the vector instructions that compiled code uses; "none": it is scalar."""
    try:
        try:
            from torch._inductor.cpu_vec_isa import pick_vec_isa
        except ImportError:
            from torch._inductor.codecache import pick_vec_isa
        found = pick_vec_isa()
    except Exception:
        return None
    return str(found) if found and "Invalid" not in type(found).__name__ else "none"


def threads() -> dict[str, int]:
    import torch

    return {"intra": torch.get_num_threads(), "inter": torch.get_num_interop_threads()}


def variables() -> dict[str, str]:
    return {name: os.environ[name] for name in sorted(_VARIABLES) if name in os.environ}


def governor() -> str | None:
    return _first_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")


def load() -> list[float]:
    with contextlib.suppress(OSError, AttributeError):
        return list(os.getloadavg())
    return []


def affinity() -> list[int] | None:
    """Returns the processors this process may run on, None where the system does not tell."""
    with contextlib.suppress(OSError, AttributeError):
        return sorted(os.sched_getaffinity(0))
    return None


def preflight() -> dict[str, Any]:
    """Returns all that is known of this interpreter and machine. Imports torch, runs a compiler."""
    import torch

    return {
        "format": 1,
        "versions": versions(),
        "build": build(ask_compiler=True),
        "threads": threads(),
        "devices": devices(),
        "drivers": _drivers(),
        "distributed": _distributed(torch),
        "compiler": _compiler(),
        "environment": variables(),
        "governor": governor(),
        "load": load(),
        "cpus": {
            "online": os.cpu_count(),
            "affinity": affinity(),
            "model": _field_of("/proc/cpuinfo", "model name"),
            "machine": platform.machine(),
        },
        "memory": {
            "total_bytes": _kilobytes_of("MemTotal"),
            "available_bytes": _kilobytes_of("MemAvailable"),
        },
        "system": platform.platform(),
        "interpreter": sys.executable,
    }


def devices() -> dict[str, dict[str, Any]]:
    """Returns each backend of the method: whether it is there, else why not."""
    found = {"cpu": {"available": True, "reason": "", "count": 1, "names": [platform.machine()]}}
    for name in ("cuda", "rocm", "mps"):
        reason = missing_device(name)
        names: list[str] = []
        if reason is None:
            import torch

            names = (
                ["mps"]
                if name == "mps"
                else [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
            )
        found[name] = {
            "available": reason is None,
            "reason": reason or "",
            "count": len(names),
            "names": names,
        }
    return found


def missing_device(name: str) -> str | None:
    """Returns why the device is not there; None: it is. Call it with torch imported."""
    import torch

    if name == "cpu":
        return None
    if name == "mps":
        mps = getattr(torch.backends, "mps", None)
        if mps is None or not mps.is_built():
            return "this torch is built without MPS"
        return None if mps.is_available() else "no MPS device is there"
    if name in ("cuda", "rocm", "hip"):
        wanted, other = ("hip", "cuda") if name != "cuda" else ("cuda", "hip")
        if not getattr(torch.version, wanted, None):
            what = "ROCm" if wanted == "hip" else "CUDA"
            built = (
                " but with the other of CUDA and ROCm"
                if getattr(torch.version, other, None)
                else ""
            )
            return f"this torch is built without {what}{built}"
        if not torch.cuda.is_available():
            return f"torch finds no {name} device: none is there, or its driver does not suit"
        return None
    module = getattr(torch, name, None)
    if hasattr(module, "is_available") and not module.is_available():
        return f"torch.{name} says that no device is there"
    if module is None:
        return f"torch has no module for the device {name!r}"
    return None


def torch_device(name: str) -> str:
    """Returns torch's own name of a backend: ROCm's devices are called cuda there."""
    return "cuda" if name in ("rocm", "hip") else name


def _distributed(torch: Any) -> dict[str, bool]:
    there = bool(torch.distributed.is_available())
    asked = {"gloo": "is_gloo_available", "nccl": "is_nccl_available", "mpi": "is_mpi_available"}
    return {
        "available": there,
        **{
            name: bool(there and getattr(torch.distributed, ask, lambda: False)())
            for name, ask in asked.items()
        },
    }


def _drivers() -> dict[str, str]:
    found = {}
    for name, command in (
        ("nvidia", ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]),
        ("amdgpu", ["rocm-smi", "--showdriverversion", "--csv"]),
    ):
        said = _said_by(command)
        if said:
            found[name] = said.splitlines()[-1].strip()
    return found


def _compiler() -> str | None:
    program = os.environ.get("CXX") or next(
        (name for name in ("g++", "clang++") if shutil.which(name)), None
    )
    said = _said_by([program, "--version"]) if program else ""
    return said.splitlines()[0] if said else None


def _said_by(command: list[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def _first_line(path: str) -> str | None:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.readline().strip() or None
    except OSError:
        return None


def _field_of(path: str, key: str) -> str | None:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            for line in file:
                name, colon, value = line.partition(":")
                if colon and name.strip() == key:
                    return value.strip()
    except OSError:
        pass
    return None


def _kilobytes_of(key: str) -> int | None:
    value = _field_of("/proc/meminfo", key)
    return int(value.split()[0]) * 1024 if value else None
