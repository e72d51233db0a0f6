"""Imports the torch under test and its device, and says what they are."""

from __future__ import annotations

import hashlib
import importlib
import importlib.metadata
import os
import platform
import subprocess
import sys
from typing import Any

from crosscheck_probe import __version__
from crosscheck_probe.request import Device, Suite
from crosscheck_probe.text import message_of, type_name

# Variables that change what tests do or compute. Nothing else of the environment is reported.
VARIABLES = (
    "ATEN_CPU_CAPABILITY",
    "CUBLAS_WORKSPACE_CONFIG",
    "MKL_NUM_THREADS",
    "OMP_NUM_THREADS",
    "PYTHONHASHSEED",
    "PYTORCH_TEST_WITH_DYNAMO",
    "PYTORCH_TEST_WITH_INDUCTOR",
    "PYTORCH_TEST_WITH_SLOW",
    "TORCHINDUCTOR_FORCE_DISABLE_CACHES",
    "TORCH_COMPILE_DISABLE",
)
_PACKAGES = ("expecttest", "hypothesis", "numpy", "triton")


class EnvironmentFault(Exception):
    """Something that must be there is not. `what`: torch, torch.testing, pytest or device."""

    def __init__(self, what: str, message: str) -> None:
        super().__init__(message)
        self.what = what


def prepare(device: Device, test_machinery: bool) -> None:
    """Imports torch and the device's module; with `test_machinery` also what tests are made with.

    Sets what torch's test machinery reads as it is imported: the only device to instantiate for.
    """
    # torch's machinery would add to every message how to run the test from a shell.
    os.environ.setdefault("PYTORCH_PRINT_REPRO_ON_FAILURE", "0")
    _need("torch", "torch")
    import torch

    if device.path is not None and device.path not in sys.path:
        sys.path.insert(0, device.path)
    if device.module is not None:
        _need(device.module, "device")
        found = torch._C._get_privateuse1_backend_name()
        if found != device.name:
            raise EnvironmentFault(
                "device",
                f"the module {device.module!r} registers the device {found!r}, not {device.name!r}",
            )
        only = "privateuse1"
    else:
        only = device.name
    os.environ["PYTORCH_TESTING_DEVICE_ONLY_FOR"] = only
    try:
        torch.device(device.name)
    except RuntimeError as error:
        raise EnvironmentFault(
            "device", f"torch knows no device {device.name!r}: {message_of(error)}"
        ) from error
    if test_machinery:
        _need("pytest", "pytest")
        _need("torch.testing._internal.common_device_type", "torch.testing")
        from torch.testing._internal import common_device_type

        types = [base.device_type for base in common_device_type.device_type_test_bases]
        if only not in types and device.name not in types:
            raise EnvironmentFault(
                "device",
                f"torch's test machinery has no tests for {device.name!r} here, only for "
                f"{', '.join(types)}: is the device there?",
            )


def survives_fork(device: Device) -> bool:
    """Whether a fork of this process may use the device, as far as torch and the device say."""
    import torch

    backend = getattr(torch, device.name, None)
    initialized = getattr(backend, "is_initialized", None)
    if device.name == "cpu" or initialized is None or not initialized():
        return True
    # What torch asks a device in a forked process before it uses it.
    is_bad = getattr(backend, "_is_in_bad_fork", None)
    if is_bad is None:
        return False
    pid = os.fork()
    if pid == 0:
        os._exit(1 if is_bad() else 0)
    return os.waitpid(pid, 0)[1] == 0


def restore_device_type() -> None:
    """Undoes what one file's tests leave for the next in torch's test machinery.

    The first class made for a PrivateUse1 device is named after `privateuse1`. Making it sets the
    device up, and those after it in the process are named after the device. A file's node ids must
    not depend on the files before it.
    """
    machinery = sys.modules.get("torch.testing._internal.common_device_type")
    base = getattr(machinery, "PrivateUse1TestBase", None)
    if base is not None:
        base.device_type = "privateuse1"
        if "primary_device" in vars(base):
            del base.primary_device


def describe(device: Device, suite: Suite | None) -> dict[str, Any]:
    """Returns the fields of the `environment` line. Call `prepare` before."""
    import torch

    count, name = 1, platform.processor() or platform.machine()
    module = getattr(torch, device.name, None)
    if device.name != "cpu":
        count = int(module.device_count()) if hasattr(module, "device_count") else 0
        name = device.name
        if count > 0 and hasattr(module, "get_device_name"):
            name = str(module.get_device_name(0))
    described: dict[str, Any] = {
        "schema": 1,
        "probe": __version__,
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "torch_git": str(getattr(torch.version, "git_version", None) or ""),
        "pytest": _version("pytest"),
        "device": {"type": device.name, "count": count, "name": name},
        "facts": _facts(device, module),
    }
    if suite is not None:
        described["suite"] = revision_of(suite)
    return described


def revision_of(suite: Suite) -> str:
    """Returns a tree's commit (`-dirty`: with changes), without git a digest of the files."""
    if suite.name == "tree":
        commit = _git(suite.root, "rev-parse", "HEAD")
        if commit:
            changed = _git(suite.root, "status", "--porcelain", "--untracked-files=no", "--", ".")
            return commit + ("-dirty" if changed else "")
    digest = hashlib.sha256()
    for folder, folders, names in os.walk(suite.root):
        folders[:] = sorted(f for f in folders if f != "__pycache__")
        for name in sorted(n for n in names if n.endswith(".py")):
            path = os.path.join(folder, name)
            digest.update(os.path.relpath(path, suite.root).encode() + b"\0")
            with open(path, "rb") as file:
                digest.update(hashlib.sha256(file.read()).digest())
    return "sha256:" + digest.hexdigest()


def _facts(device: Device, module: Any) -> dict[str, str]:
    import torch

    facts = {
        "machine": platform.machine(),
        "system": platform.system(),
        "python_implementation": platform.python_implementation(),
        "threads": str(torch.get_num_threads()),
        "interop_threads": str(torch.get_num_interop_threads()),
        "blas": blas_of(torch),
        "default_dtype": str(torch.get_default_dtype()).replace("torch.", ""),
    }
    capability = getattr(getattr(torch.backends, "cpu", None), "get_cpu_capability", None)
    if capability is not None:
        facts["cpu_capability"] = str(capability())
    for package in _PACKAGES:
        version = _version(package)
        if version:
            facts[package] = version
    for variable in VARIABLES:
        if variable in os.environ:
            facts[variable] = os.environ[variable]
    own = getattr(module, "crosscheck_facts", None)
    if own is not None:
        facts.update({f"{device.name}.{k}": str(v) for k, v in own().items()})
    return facts


def blas_of(torch: Any) -> str:
    if getattr(torch.backends, "mkl", None) and torch.backends.mkl.is_available():
        return "mkl"
    for line in torch.__config__.show().splitlines():
        if "BLAS_INFO=" in line:
            return str(line.split("BLAS_INFO=")[1].split(",")[0].strip())
    return "unknown"


def _need(module: str, what: str) -> None:
    try:
        importlib.import_module(module)
    except Exception as error:
        cause = f"{type_name(type(error))}: {message_of(error)}"
        raise EnvironmentFault(
            what, f"{module} cannot be imported by {sys.executable}: {cause}"
        ) from error


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""


def _git(root: str, *arguments: str) -> str:
    try:
        done = subprocess.run(
            ["git", "-C", root, *arguments], capture_output=True, text=True, timeout=60, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
