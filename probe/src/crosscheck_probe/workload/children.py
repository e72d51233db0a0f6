"""Processes that must not outlive the launch, however it ends."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
from typing import Any

_PR_SET_PDEATHSIG = 1
# Reads the groups' numbers; at the end of file the launch is gone, and what it left goes too.
_GUARD = """
import os, signal, sys
groups = set()
for line in sys.stdin:
    (groups.add if line[0] == "+" else groups.discard)(int(line[1:]))
for group in groups:
    try:
        os.killpg(group, signal.SIGKILL)
    except OSError:
        pass
"""


class Guard:
    """A process in a group of its own that kills what `start` started once this one is gone."""

    def __enter__(self) -> Guard:
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _GUARD],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()

    def start(self, command: list[str], **how: Any) -> subprocess.Popen[Any]:
        """Starts a process that leads a group of its own, and whose death follows this one's."""
        assert self._process.stdin is not None
        pipe = self._process.stdin.fileno()

        def before() -> None:
            # Told before the command runs: afterwards this process may be gone already.
            os.write(pipe, f"+{os.getpid()}\n".encode())
            die_with_parent()

        return subprocess.Popen(
            command, stdin=subprocess.DEVNULL, start_new_session=True, preexec_fn=before, **how
        )

    def end(self, process: subprocess.Popen[Any]) -> None:
        """Kills the process and all its group; waits for it."""
        assert self._process.stdin is not None
        kill_group(process)
        if process.returncode is None:
            process.wait()
        os.write(self._process.stdin.fileno(), f"-{process.pid}\n".encode())


def die_with_parent() -> None:
    if _libc is not None:
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def kill_group(process: subprocess.Popen[Any]) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


_libc = ctypes.CDLL(None) if sys.platform == "linux" else None
