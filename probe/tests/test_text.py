from __future__ import annotations

import pytest

from crosscheck_probe.text import MESSAGE_LIMIT, clip, message_of, traceback_of, type_name


@pytest.mark.parametrize("limit", [0, 1, 40, 50, 63, 64, 100])
@pytest.mark.parametrize("text", ["", "a" * 64, "ä" * 100, "🦀" * 100, "\udcff" * 30, "x\0y"])
def test_clip_holds_its_limit(text: str, limit: int) -> None:
    clipped = clip(text, limit)
    assert len(clipped.encode("utf-8")) <= limit or clipped == ""
    assert "\0" not in clipped


def test_clip_keeps_both_ends() -> None:
    clipped = clip("begin" + "x" * 10000 + "end", MESSAGE_LIMIT)
    assert clipped.startswith("begin") and clipped.endswith("end")
    assert "bytes left out" in clipped
    assert len(clipped.encode()) > MESSAGE_LIMIT // 2


def test_short_text_is_untouched() -> None:
    assert clip("ä\n", 3) == "ä\n"


class Silent(Exception):
    def __str__(self) -> str:
        raise ValueError("no text")


def test_exception_without_text() -> None:
    assert "ValueError" in message_of(Silent())
    assert type_name(Silent) == f"{__name__}.Silent"
    assert type_name(KeyError) == "KeyError"


def test_traceback_names_the_place() -> None:
    try:
        raise RuntimeError("boom")
    except RuntimeError as error:
        text = traceback_of(error)
    assert "test_traceback_names_the_place" in text and text.endswith("RuntimeError: boom\n")
