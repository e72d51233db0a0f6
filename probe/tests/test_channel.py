from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from conftest import PROBE

from crosscheck_probe.channel import EXIT_CHANNEL_LOST, Channel, encode_line


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    read, write = os.pipe()
    yield read, write
    os.close(read)


def close(channel: Channel) -> None:
    os.close(channel._fd)


def read_all(read: int) -> list[dict[str, Any]]:
    data = b""
    while chunk := os.read(read, 1 << 16):
        data += chunk
    return [json.loads(line) for line in data.decode().splitlines()]


def test_descriptor_moves_up_and_closes_on_exec(pipe: tuple[int, int]) -> None:
    channel = Channel(pipe[1])
    with pytest.raises(OSError):
        os.fstat(pipe[1])
    assert channel._fd > 100
    assert fcntl.fcntl(channel._fd, fcntl.F_GETFD) & fcntl.FD_CLOEXEC
    close(channel)


def test_lines_survive_odd_text(pipe: tuple[int, int]) -> None:
    channel = Channel(pipe[1])
    channel.emit("x", text="a\nb\udcff\x1b[31m ä")
    close(channel)
    assert read_all(pipe[0]) == [{"ev": "x", "text": "a\nb\\udcff\x1b[31m ä"}]


def test_line_is_one_line() -> None:
    assert encode_line({"a": "1\r\n2\u2028"}).count(b"\n") == 1


def test_threads_do_not_mix_lines(pipe: tuple[int, int]) -> None:
    channel = Channel(pipe[1])
    received: list[dict[str, Any]] = []
    reader = threading.Thread(target=lambda: received.extend(read_all(pipe[0])))
    reader.start()
    writers = [
        threading.Thread(
            target=lambda n=n: [channel.emit("x", n=n, text=str(n) * 30000) for _ in range(20)]
        )
        for n in range(4)
    ]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    close(channel)
    reader.join()
    assert len(received) == 80
    assert all(line["text"] == str(line["n"]) * 30000 for line in received)


def in_a_process(program: str) -> tuple[list[dict[str, Any]], int]:
    read, write = os.pipe()
    process = subprocess.Popen(
        [sys.executable, "-c", program, str(write)],
        pass_fds=[write],
        env={**os.environ, "PYTHONPATH": str(PROBE / "src")},
        stderr=subprocess.DEVNULL,
    )
    os.close(write)
    lines = read_all(read)
    os.close(read)
    return lines, process.wait()


PREAMBLE = """
import os, sys
from crosscheck_probe.channel import Channel
channel = Channel(int(sys.argv[1]))
"""


def test_forked_child_is_silent_and_holds_nothing_open() -> None:
    lines, code = in_a_process(
        PREAMBLE
        + """
ready, go = os.pipe()
if os.fork() == 0:
    os.close(go)
    channel.emit("child")
    os.read(ready, 1)  # lives until its parent is gone
    os._exit(0)
channel.emit("parent")
os._exit(0)
"""
    )
    assert (lines, code) == ([{"ev": "parent"}], 0)


def test_low_descriptors_may_be_closed() -> None:
    lines, code = in_a_process(PREAMBLE + "os.closerange(0, 200)\nchannel.emit('x')\nos._exit(0)\n")
    assert (lines, code) == ([{"ev": "x"}], 0)


@pytest.mark.parametrize(
    "loss",
    [
        "os.close(channel._fd)",
        "os.dup2(os.open(os.devnull, os.O_WRONLY), channel._fd)",
    ],
)
def test_lost_channel_ends_the_process(loss: str) -> None:
    lines, code = in_a_process(PREAMBLE + f"channel.emit('x')\n{loss}\nchannel.emit('y')\n")
    assert (lines, code) == ([{"ev": "x"}], EXIT_CHANNEL_LOST)


def test_reader_gone_ends_the_process() -> None:
    program = (
        PREAMBLE.replace("int(sys.argv[1])", "write")
        .replace("channel =", "read, write = os.pipe()\nchannel =")
        .strip()
        + "\nos.close(read)\nchannel.emit('x')\n"
    )
    assert in_a_process(program) == ([], EXIT_CHANNEL_LOST)
