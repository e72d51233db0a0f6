"""Nothing that a test starts leaves the tree of processes below its own."""

from __future__ import annotations

import ctypes

_PR_SET_CHILD_SUBREAPER = 36


def take_on_orphans() -> None:
    """Makes this process the parent of what loses its own below it, daemons among them.

    So all that tests started hangs on it while it lives, and on the runner when it has ended.
    """
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)
