"""What the process holds, so that a test after which it holds much more can be named."""

from __future__ import annotations

import os
from collections.abc import Callable

_PAGE = os.sysconf("SC_PAGESIZE")


class Memory:
    """Asks the kernel, and the device's module in torch where that counts what is allocated."""

    def __init__(self, device: str) -> None:
        self._allocated = _counter_of(device)

    def held(self) -> tuple[int, int]:
        """Returns the bytes of the process and of the device; 0 for what cannot be told."""
        return _resident(), self._on_device()

    def _on_device(self) -> int:
        if self._allocated is None:
            return 0
        try:
            return int(self._allocated())
        except Exception:
            return 0  # a test may have broken the device; that is its own result


def _resident() -> int:
    # Before and after every test: without the layers of a Python file.
    try:
        fd = os.open("/proc/self/statm", os.O_RDONLY | os.O_CLOEXEC)
        try:
            return int(os.read(fd, 128).split()[1]) * _PAGE
        finally:
            os.close(fd)
    except (OSError, IndexError, ValueError):
        return 0  # a test may have used up the descriptors


def _counter_of(device: str) -> Callable[[], int] | None:
    if device == "cpu":
        return None
    import torch

    return getattr(getattr(torch, device, None), "memory_allocated", None)
