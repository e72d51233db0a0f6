"""The fork server as a process, asked as the runner asks it."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import PROBE, PROGRAM, Tree

_PR_SET_CHILD_SUBREAPER = 36
_DEADLINE = 240.0


class Server:
    def __init__(self, device: dict[str, Any], paths: tuple[Path, ...] = ()) -> None:
        self.control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.control.settimeout(_DEADLINE)
        self.process = subprocess.Popen(
            [sys.executable, "-P", str(PROGRAM), "forkserver"]
            + ["--fd", str(theirs.fileno()), "--request", "-"],
            stdin=subprocess.PIPE,
            pass_fds=[theirs.fileno()],
            env={
                **{k: v for k, v in os.environ.items() if k != "REFDEV_CONFIG"},
                "PYTHONPATH": os.pathsep.join(map(str, [*paths, PROBE / "src"])),
            },
        )
        theirs.close()
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"device": device}).encode())
        self.process.stdin.close()
        self.said = self.control.recv(256).decode()

    def fork(self, verb: str, request: dict[str, Any]) -> tuple[int, int]:
        """Returns the new process's id and the pipe of its events."""
        events, theirs = os.pipe()
        asked = os.memfd_create("request")
        os.write(asked, json.dumps(request).encode())
        os.lseek(asked, 0, os.SEEK_SET)
        nowhere = os.open(os.devnull, os.O_RDWR)
        socket.send_fds(self.control, [verb.encode()], [asked, nowhere, nowhere, theirs])
        for fd in (asked, nowhere, theirs):
            os.close(fd)
        return int(self.control.recv(256)), events

    def ask(self, verb: str, request: dict[str, Any]) -> tuple[list[dict[str, Any]], int]:
        pid, events = self.fork(verb, request)
        with os.fdopen(events, encoding="utf-8") as lines:
            said = [json.loads(line) for line in lines]
        return said, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

    def end(self) -> int:
        self.control.close()
        return self.process.wait(_DEADLINE)


@pytest.fixture(autouse=True)
def subreaper() -> Iterator[None]:
    libc = ctypes.CDLL(None)
    assert libc.prctl(_PR_SET_CHILD_SUBREAPER, 1) == 0
    yield
    libc.prctl(_PR_SET_CHILD_SUBREAPER, 0)


CRASHING = """
    import os, signal, unittest

    class TestIt(unittest.TestCase):
        def test_a(self): os.environ["LEFT_BEHIND"] = "yes"
        def test_b(self): os.kill(os.getpid(), signal.SIGSEGV)
        def test_c(self): self.assertNotIn("LEFT_BEHIND", os.environ)
"""


def run_request(tree: Tree, *names: str) -> dict[str, Any]:
    return {
        "suite": {"name": "tree", "root": str(tree.root), "files": ["test_it.py"]},
        "device": {"name": "cpu"},
        "file": "test_it.py",
        "tests": [f"test_it.py::TestIt::{name}" for name in names],
    }


def test_each_process_begins_anew_and_dies_alone(tree: Tree) -> None:
    tree.write("test_it.py", CRASHING)
    server = Server({"name": "cpu"})
    assert server.said == "ready"
    collected, code = server.ask("collect", run_request(tree))
    assert code == 0
    assert [line["ev"] for line in collected].count("test") == 3
    died, code = server.ask("run", run_request(tree, "test_a", "test_b", "test_c"))
    assert code == -signal.SIGSEGV
    assert died[-1] == {"ev": "start", "node": "test_it.py::TestIt::test_b"}
    rest, code = server.ask("run", run_request(tree, "test_c"))
    assert code == 0
    assert [line["outcome"] for line in rest if line["ev"] == "finish"] == ["passed"]
    assert server.end() == 0


def test_a_process_leads_a_group_and_dies_with_the_server_s_parent_only(tree: Tree) -> None:
    tree.write("test_it.py", "import time\ntime.sleep(1000)\n")
    server = Server({"name": "cpu"})
    pid, events = server.fork("run", run_request(tree, "test_a"))
    assert os.getpgid(pid) == pid
    with open(f"/proc/{pid}/stat", encoding="utf-8") as stat:
        assert int(stat.read().rsplit(")", 1)[1].split()[1]) == os.getpid()
    assert server.end() == 0
    assert os.waitpid(pid, os.WNOHANG) == (0, 0)
    os.killpg(pid, signal.SIGKILL)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL
    os.close(events)


MODULE = """
import sys, threading, torch
{before}
torch.utils.rename_privateuse1_backend("thr")
torch._register_device_module("thr", sys.modules[__name__])
def is_available(): return True
def device_count(): return 1
def current_device(): return 0
{after}
"""


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("", "", "ready"),
        ("threading.Thread(target=threading.Event().wait, daemon=True).start()", "", "threads"),
        ("", "def is_initialized(): return True", "does not survive a fork"),
        (
            "",
            "def is_initialized(): return True\ndef _is_in_bad_fork(): return False",
            "ready",
        ),
        (
            "import os\nowner = os.getpid()",
            "def is_initialized(): return True\ndef _is_in_bad_fork(): return os.getpid() != owner",
            "does not survive a fork",
        ),
        ("raise RuntimeError('no driver')", "", "no driver"),
    ],
)
def test_it_serves_only_where_a_fork_is_safe(
    tmp_path: Path, before: str, after: str, said: str
) -> None:
    (tmp_path / "thr_device.py").write_text(MODULE.format(before=before, after=after))
    device = {"name": "thr", "setup": {"module": "thr_device", "path": str(tmp_path)}}
    server = Server(device)
    assert said in server.said
    assert server.end() == 0
