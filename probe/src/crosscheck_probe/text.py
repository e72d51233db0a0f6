"""Texts as the protocol carries them: bounded, valid UTF-8, without NUL."""

from __future__ import annotations

import traceback
from types import TracebackType

MESSAGE_LIMIT = 4 * 1024
TRACEBACK_LIMIT = 64 * 1024

_HARNESS = ("_pytest", "importlib", "pluggy", "unittest")


def clip(text: str, limit: int) -> str:
    """Returns `text` in at most `limit` bytes of UTF-8, its middle left out where it is longer."""
    raw = text.replace("\0", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "backslashreplace")
    if len(raw) <= limit:
        return raw.decode("utf-8")
    mark = f"\n… {len(raw) - limit} bytes left out …\n".encode()
    room = max(limit - len(mark), 0)
    head, tail = raw[: room - room // 3], raw[len(raw) - room // 3 :]
    clipped = head.decode("utf-8", "ignore") + mark.decode() + tail.decode("utf-8", "ignore")
    return clipped.encode("utf-8")[:limit].decode("utf-8", "ignore")


def type_name(kind: type) -> str:
    """Returns the qualified name of an exception's class; a built-in has no prefix."""
    module = getattr(kind, "__module__", "builtins")
    name = getattr(kind, "__qualname__", str(kind))
    return name if module in ("builtins", "exceptions") else f"{module}.{name}"


def message_of(error: BaseException) -> str:
    """Returns the exception's text, also of one whose own `__str__` raises."""
    try:
        return clip(str(error), MESSAGE_LIMIT)
    except Exception as broken:
        return f"<the text of the exception is not to be had: {type_name(type(broken))}>"


def traceback_of(error: BaseException, start: TracebackType | None = None) -> str:
    """Returns the traceback as Python prints it, without the harness's frames before the test's."""
    trace = error.__traceback__ if start is None else start
    inner = trace
    while inner is not None and _is_harness(inner):
        inner = inner.tb_next
    try:
        lines = traceback.format_exception(type(error), error, inner or trace)
    except Exception as broken:
        lines = [f"<the traceback is not to be had: {type_name(type(broken))}>"]
    return clip("".join(lines), TRACEBACK_LIMIT)


def _is_harness(trace: TracebackType) -> bool:
    module = str(trace.tb_frame.f_globals.get("__name__", ""))
    return module.split(".")[0] in _HARNESS or module == "crosscheck_probe.session"
