"""The pipe to the runner: one JSON object a line."""

from __future__ import annotations

import fcntl
import json
import os
import re
import resource
import sys
import threading
from typing import Any

EXIT_CHANNEL_LOST = 6

# Made once: json.dumps makes one for every call that asks for more than the defaults.
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False)
_SURROGATE = re.compile("[\ud800-\udfff]")


class Channel:
    """Owns the descriptor the runner handed over and writes whole lines to it.

    The descriptor is moved to a high number and marked close-on-exec, so that a test which closes
    or reuses low descriptors, or starts programs, leaves it alone. A forked child closes it: only
    the process that opened the channel speaks, and the runner sees the end of file when that one
    dies. Where the pipe is gone or its number now means another file, nobody can be told
    anything, so the process ends at once with EXIT_CHANNEL_LOST.
    """

    def __init__(self, fd: int) -> None:
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        lowest = 500 if limit == resource.RLIM_INFINITY or limit > 600 else max(limit // 2, 3)
        self._fd = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, lowest)
        if fd > 2:
            os.close(fd)
        self._identity = self._identify()
        self._pid = os.getpid()
        self._lock = threading.Lock()
        os.register_at_fork(after_in_child=self._close_in_child)

    def emit(self, ev: str, **fields: Any) -> None:
        """Writes one line, whole, before it returns. Silent in a forked child. Thread-safe."""
        if os.getpid() != self._pid:
            return
        line = encode_line({"ev": ev, **fields})
        with self._lock:
            try:
                if self._identify() != self._identity:
                    raise OSError("the descriptor was closed or replaced")
                while line:
                    line = line[os.write(self._fd, line) :]
            except OSError as error:
                sys.stderr.write(f"crosscheck_probe: cannot write to the runner: {error}\n")
                sys.stderr.flush()
                os._exit(EXIT_CHANNEL_LOST)

    def _identify(self) -> tuple[int, int]:
        found = os.fstat(self._fd)
        return (found.st_dev, found.st_ino)

    def _close_in_child(self) -> None:
        if self._pid != os.getpid():
            try:
                if self._identify() == self._identity:
                    os.close(self._fd)
            except OSError:
                pass


def encode_line(record: dict[str, Any]) -> bytes:
    """Returns `record` as one line of UTF-8; half a surrogate pair is spelled out in ASCII."""
    text = _ENCODER.encode(record)
    try:
        return text.encode("utf-8") + b"\n"
    except UnicodeEncodeError:
        # The escape JSON has for it is one that strict readers refuse.
        text = _SURROGATE.sub(lambda m: f"\\\\u{ord(m.group()):04x}", text)
        return text.encode("utf-8") + b"\n"
