"""A process that imports once and forks the ones that collect and run.

The runner sends a verb with four descriptors (standard input, output, error, events) and is
answered with the process id of its new child: the runner is a subreaper, and who forked it has
ended.
"""

from __future__ import annotations

import ctypes
import gc
import os
import signal
import socket
import time

from crosscheck_probe.environment import EnvironmentFault, prepare, survives_fork
from crosscheck_probe.request import Device

_PR_SET_PDEATHSIG = 1


def serve(fd: int, device: Device) -> tuple[str, int] | None:
    """Serves the runner until it is gone; returns, in each forked process, its verb and events."""
    control = socket.socket(fileno=fd)
    control.set_inheritable(False)
    try:
        # A linear algebra library's threads wait from here on, and are made anew behind a fork.
        import numpy  # noqa: F401
    except ImportError:
        pass
    threads = _threads()
    try:
        prepare(device, test_machinery=True)
    except EnvironmentFault as fault:
        control.send(str(fault).encode()[:200])
        return None
    import pytest  # noqa: F401

    import crosscheck_probe.session  # noqa: F401

    if _threads() != threads:
        control.send(b"importing started threads")
        return None
    if not survives_fork(device):
        control.send(b"importing took the device, and it does not survive a fork")
        return None
    # What was imported is never garbage: not to be looked at again by each process.
    gc.collect()
    gc.freeze()
    control.send(b"ready")
    while True:
        verb, descriptors, _, _ = socket.recv_fds(control, 32, 4)
        if not verb:
            return None
        pid = _fork()
        if pid == 0:
            control.close()
            for number, descriptor in enumerate(descriptors[:3]):
                os.dup2(descriptor, number)
                os.close(descriptor)
            return verb.decode(), descriptors[3]
        for descriptor in descriptors:
            os.close(descriptor)
        control.send(str(pid).encode())


def _fork() -> int:
    """As os.fork; the new process leads a group and is a child of this one's own parent."""
    read, write = os.pipe()
    between = os.fork()
    if between == 0:
        _fork_and_leave(read, write)
        return 0
    os.close(write)
    with os.fdopen(read, "rb") as told:
        pid = int(told.read() or b"0")
    os.waitpid(between, 0)
    return pid


def _fork_and_leave(read: int, write: int) -> None:
    """Returns only in the process that is to stay."""
    between = os.getpid()
    runner = _parent_of(os.getppid())
    pid = os.fork()
    if pid != 0:
        try:
            os.setpgid(pid, pid)
            os.write(write, str(pid).encode())
        finally:
            os._exit(0)
    os.close(read)
    os.close(write)
    os.setpgid(0, 0)
    while os.getppid() == between:
        time.sleep(0.0005)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != runner:
        os._exit(1)  # the runner is gone, and nobody wants the results


def _parent_of(pid: int) -> int:
    with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as stat:
        return int(stat.read().rsplit(")", 1)[1].split()[1])


def _threads() -> int:
    return len(os.listdir("/proc/self/task"))
