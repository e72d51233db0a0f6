"""Reads what a launch's tensors hold and what its process holds. Nothing here judges."""

from __future__ import annotations

import ctypes
import hashlib
import math
import sys
import time
from collections.abc import Iterator
from typing import Any


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yields (path, leaf) for each tensor and number in nested lists, tuples and mappings."""
    if value is None:
        return
    if isinstance(value, dict):
        for key in sorted(value, key=str):
            yield from leaves(value[key], f"{path}.{key}" if path else str(key))
    elif isinstance(value, (list, tuple)):
        for index, one in enumerate(value):
            yield from leaves(one, f"{path}[{index}]")
    else:
        yield path, value


def digest_of(value: Any) -> str:
    """Returns a digest of all bits in `value`, with the names, shapes and types of its tensors."""
    import torch

    digest = hashlib.sha256()
    for path, leaf in leaves(value):
        digest.update(path.encode() + b"\0")
        if isinstance(leaf, torch.Tensor):
            tensor = host_copy(leaf)
            digest.update(f"{tuple(tensor.shape)} {tensor.dtype}\0".encode())
            size = tensor.numel() * tensor.element_size()
            if size:
                digest.update((ctypes.c_char * size).from_address(tensor.data_ptr()))
        else:
            digest.update(repr(leaf).encode() + b"\0")
    return "sha256:" + digest.hexdigest()


def host_copy(tensor: Any) -> Any:
    """Returns the values of `tensor` in memory of the host, dense; a sharded one is gathered."""
    tensor = tensor.detach()
    if hasattr(tensor, "full_tensor"):
        tensor = tensor.full_tensor()
    if tensor.layout != _torch().strided:
        tensor = tensor.to_dense()
    return tensor.cpu().contiguous().resolve_conj().resolve_neg()


def shapes_of(value: Any) -> list[list[int]]:
    return [list(leaf.shape) for _, leaf in leaves(value) if isinstance(leaf, _torch().Tensor)]


def describe_output(value: Any) -> dict[str, Any]:
    """Returns digest, shapes, types, and how many elements are NaN or infinite."""
    torch = _torch()
    tensors = [leaf for _, leaf in leaves(value) if isinstance(leaf, torch.Tensor)]
    numbers = [leaf for _, leaf in leaves(value) if isinstance(leaf, float)]
    floating = [t for t in tensors if t.is_floating_point() or t.is_complex()]
    return {
        "digest": digest_of(value),
        "shape": [list(t.shape) for t in tensors],
        "dtype": [str(t.dtype).replace("torch.", "") for t in tensors],
        "nan": sum(int(torch.isnan(t).sum()) for t in floating) + sum(map(math.isnan, numbers)),
        "inf": sum(int(torch.isinf(t).sum()) for t in floating) + sum(map(math.isinf, numbers)),
        "rmse": None,
        "max_error": None,
        "cosine": None,
        "reference_norm": None,
        "reference_projection": None,
    }


def errors_against(value: Any, reference: Any) -> dict[str, float | None]:
    """Returns the error of all elements of `value` against a float64 `reference` of its shape.

    The cosine is None where either is all zeros. Raises ValueError where the two differ in shape.
    Norm and projection say which reference it was: what is wrong in float64 too is no error here,
    but it makes another reference than the other side's.
    """
    torch = _torch()
    found, wanted = _flat(value), _flat(reference)
    if [path for path, _ in found] != [path for path, _ in wanted]:
        raise ValueError("the reference has other tensors than the output")
    squares = largest = product = left = right = projection = 0.0
    count = 0
    for (path, one), (_, other) in zip(found, wanted):
        if one.shape != other.shape:
            raise ValueError(
                f"{path or 'the output'} has shape {list(one.shape)} and its "
                f"reference {list(other.shape)}"
            )
        if one.numel() == 0:
            continue
        apart = one - other
        squares += float(torch.dot(apart, apart))
        worst = float(apart.abs().max())
        largest = worst if math.isnan(worst) else max(largest, worst)
        product += float(torch.dot(one, other))
        left += float(torch.dot(one, one))
        right += float(torch.dot(other, other))
        places = torch.arange(count, count + other.numel(), dtype=torch.float64)
        projection += float(torch.dot(other, places.cos()))
        count += one.numel()
    scale = math.sqrt(left) * math.sqrt(right)
    result = {
        "rmse": math.sqrt(squares / count) if count else 0.0,
        "max_error": largest,
        "cosine": product / scale if scale > 0 else None,
        "reference_norm": math.sqrt(right),
        "reference_projection": projection,
    }
    return {k: v if v is not None and math.isfinite(v) else None for k, v in result.items()}


def _flat(value: Any) -> list[tuple[str, Any]]:
    torch = _torch()
    flat = []
    for path, leaf in leaves(value):
        if isinstance(leaf, torch.Tensor) and not leaf.is_complex():
            flat.append((path, host_copy(leaf).to(torch.float64).reshape(-1)))
        elif isinstance(leaf, (int, float)) and not isinstance(leaf, bool):
            flat.append((path, torch.tensor([leaf], dtype=torch.float64)))
    return flat


class PeakMemory:
    """The most memory held since `reset`: of the process, and of a device that counts its own."""

    def __init__(self, device: str) -> None:
        module = getattr(_torch(), device, None) if device != "cpu" else None
        self._module = module if hasattr(module, "max_memory_allocated") else None
        self.before: int | None = None
        self._exact = False

    def reset(self) -> None:
        try:
            with open("/proc/self/clear_refs", "w", encoding="ascii") as file:
                file.write("5")
            self._exact = True
        except OSError:
            self._exact = False
        self.before = status_bytes("VmRSS")
        if self._module is not None:
            self._module.reset_peak_memory_stats()

    def read(self) -> dict[str, int | str | None]:
        """`peak_memory_since`: start of the process where the kernel does not let it be reset."""
        on_device = None if self._module is None else int(self._module.max_memory_allocated())
        return {
            "peak_memory_bytes": _peak_of_process(),
            "peak_memory_since": "warmup" if self._exact else "start",
            "memory_before_bytes": self.before,
            "device_peak_memory_bytes": on_device,
        }


def status_bytes(key: str) -> int | None:
    try:
        with open("/proc/self/status", encoding="ascii", errors="replace") as file:
            for line in file:
                if line.startswith(key + ":"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return None


def _peak_of_process() -> int | None:
    peak = status_bytes("VmHWM")
    if peak is None:
        import resource

        unit = 1 if sys.platform == "darwin" else 1024
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    return peak


def seconds_since_start() -> float:
    """Returns how long ago this process was started, to a hundredth of a second where told."""
    try:
        with open("/proc/self/stat", encoding="ascii", errors="replace") as file:
            ticks = int(file.read().rsplit(")", 1)[1].split()[19])
        import os

        return max(time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK"), 0.0)
    except (OSError, AttributeError, IndexError, ValueError):
        return time.process_time()


def operators_of(once: Any) -> set[str]:
    """Returns the names of torch's operators that one call of `once` runs."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU]) as seen:
        once()
    return {event.key for event in seen.key_averages()}


def synchroniser(device: str) -> Any:
    """Returns what waits until the device has done all that it was given."""
    module = getattr(_torch(), device, None) if device != "cpu" else None
    return getattr(module, "synchronize", None) or (lambda: None)


def _torch() -> Any:
    import torch

    return torch
