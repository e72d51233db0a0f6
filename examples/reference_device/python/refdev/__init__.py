"""The reference device: `import refdev`, then `torch.empty(3, device="refdev")`.

A PrivateUse1 backend with memory of its own that executes a list of operators through the CPU and
lacks the others. REFDEV_CONFIG names a JSON file:

    {"operators": {"set": "core"},
     "faults": {"aten::mm.out": "wrong_value"},
     "memory_mib": 4096}

`operators` may also be "all" or a list of names such as "aten::add.out"; a fault may also be raise,
crash or hang. Every member may be left out. PyTorch knows this module as `torch.refdev`.
"""

from __future__ import annotations

import hashlib
import os
import sys
from typing import Any, Union

import torch

from refdev._operators import ConfigError, Configuration, load_configuration

__all__ = ["ConfigError", "Configuration", "configuration"]

_Device = Union[int, str, torch.device, None]


def _start() -> Configuration:
    library = os.path.join(os.path.dirname(os.path.abspath(__file__)), "librefdev.so")
    if not os.path.exists(library):
        raise ImportError(f"{library} is missing: build it with examples/reference_device/build.sh")
    torch.ops.load_library(library)
    found = load_configuration(os.environ.get("REFDEV_CONFIG"))
    if found.memory_mib is not None:
        torch.ops.refdev._set_memory_limit(found.memory_mib << 20)
    torch.ops.refdev._enable(list(found.operators))
    for operator, kind in found.faults.items():
        torch.ops.refdev._set_fault(operator, kind)
    torch.utils.rename_privateuse1_backend("refdev")
    torch._register_device_module("refdev", sys.modules[__name__])
    torch.utils.generate_methods_for_privateuse1_backend()
    return found


def is_available() -> bool:
    return True


def is_initialized() -> bool:
    return True


def _is_in_bad_fork() -> bool:
    return False


def _lazy_init() -> None:
    pass


def device_count() -> int:
    return 1


def current_device() -> int:
    return 0


def set_device(device: _Device) -> None:
    index = device if isinstance(device, int) else torch.device(device or "refdev").index or 0
    if index not in (-1, 0):
        raise RuntimeError(f"refdev has one device, 0; there is no device {index}")


def get_device_name(device: _Device = None) -> str:
    return "refdev (CPU stand-in)"


def synchronize(device: _Device = None) -> None:
    pass


def get_amp_supported_dtype() -> list[torch.dtype]:
    return [torch.bfloat16, torch.float16]


def manual_seed(seed: int) -> None:
    torch.ops.refdev._manual_seed(_signed(int(seed)))


def manual_seed_all(seed: int) -> None:
    manual_seed(seed)


def initial_seed() -> int:
    return int(torch.ops.refdev._initial_seed()) % (1 << 64)


def get_rng_state(device: _Device = None) -> torch.Tensor:
    state: torch.Tensor = torch.ops.refdev._get_rng_state()
    return state


def set_rng_state(state: torch.Tensor, device: _Device = None) -> None:
    torch.ops.refdev._set_rng_state(state)


def memory_stats() -> dict[str, int]:
    """Returns bytes `allocated` now, their `peak`, `allocations` so far, and the `limit`."""
    names = ("allocated", "peak", "allocations", "limit")
    return dict(zip(names, torch.ops.refdev._memory()))


def memory_allocated(device: _Device = None) -> int:
    return memory_stats()["allocated"]


def max_memory_allocated(device: _Device = None) -> int:
    return memory_stats()["peak"]


def reset_peak_memory_stats(device: _Device = None) -> None:
    torch.ops.refdev._reset_peak_memory()


def empty_cache() -> None:
    pass


class device:  # noqa: N801, the name that torch's own device modules use
    """A context in which this device is the current one; it always is."""

    def __init__(self, which: _Device) -> None:
        set_device(which)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: Any) -> None:
        pass


def crosscheck_facts() -> dict[str, str]:
    """What tells this device from the same one configured otherwise; part of an environment."""
    listed = "\n".join(configuration.operators)
    faults = ",".join(f"{k}={v}" for k, v in sorted(configuration.faults.items()))
    return {
        "operators": f"{configuration.name} ({len(configuration.operators)})",
        "operators_digest": hashlib.sha256(listed.encode()).hexdigest()[:16],
        "faults": faults or "none",
    }


def _signed(seed: int) -> int:
    seed %= 1 << 64
    return seed - (1 << 64) if seed >= 1 << 63 else seed


configuration: Configuration = _start()
