"""Speaks docs/probe-protocol.md without torch, and misbehaves as a test's or file's name says."""

import ctypes
import json
import os
import signal
import sys
import time

FD = int(sys.argv[sys.argv.index("--fd") + 1])
LOG = os.environ.get("FAKE_PROBE_LOG")


def emit(ev, **fields):
    data = (json.dumps({"ev": ev, **fields}) + "\n").encode()
    while data:
        data = data[os.write(FD, data) :]


def log(text):
    if LOG:
        with open(LOG, "a", encoding="utf-8") as file:
            file.write(text + "\n")


def sleep_forever():
    while True:
        time.sleep(3600)


def finish(node, outcome="passed", **fields):
    emit("finish", node=node, outcome=outcome, phase="call", seconds=0.001, **fields)


def misbehave(name, node):
    """Does what `name` says; returns whether the test then ends as any other."""
    what, _, argument = name.partition("_")
    if what == "signal":
        sys.stderr.write("before the signal\n")
        os.kill(os.getpid(), int(argument))
    elif what == "exit":
        os._exit(int(argument))
    elif what == "hang":
        for number in (signal.SIGTERM, signal.SIGABRT, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)
        sleep_forever()
    elif what == "flood":
        block = b"x" * 1023 + b"\n"
        for _ in range(int(argument) * 512):
            os.write(1, block)
            os.write(2, block)
    elif what == "daemon":
        if os.fork() == 0:
            log(f"daemon {os.getpid()}")
            sleep_forever()
    elif what == "escapes":
        # As a daemon does: out of the group and the session, nobody's child, deaf to what asks it
        # to end; "bare" without a trace of the environment.
        told, tell = os.pipe()
        if os.fork() == 0:
            os.setsid()
            if os.fork() != 0:
                os._exit(0)
            for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
                signal.signal(number, signal.SIG_IGN)
            log(f"daemon {os.getpid()}")
            os.write(tell, b"x")
            variables = {} if argument == "bare" else os.environ
            os.execve("/bin/sh", ["sh", "-c", "while :; do sleep 3600; done"], variables)
        os.close(tell)
        os.read(told, 1)
        os.close(told)
        os.wait()
    elif what == "waits":
        # With a daemon of its own, until a file of that name is there.
        if os.fork() == 0:
            os.setsid()
            if os.fork() != 0:
                os._exit(0)
            log(f"kept {os.getpid()}")
            sleep_forever()
        os.wait()
        while not os.path.exists(f"{LOG}.{argument}"):
            time.sleep(0.01)
    elif what == "garbage":
        os.write(FD, b"this is not JSON\n")
        sleep_forever()
    elif what == "binary":
        os.write(FD, b'{"ev":"finish","node":"\xff\xfe"}\n')
        sleep_forever()
    elif what == "endless":
        while True:
            os.write(FD, b"x" * 65536)
    elif what == "truncated":
        os.write(FD, b'{"ev":"finish","node":"' + node.encode() + b'","outcome":"pas')
        os._exit(0)
    elif what == "closes":
        os.close(FD)
        sleep_forever()
    elif what == "unfinished":
        return False
    elif what == "early":
        emit("end")
        os._exit(0)
    elif what == "internal":
        emit("internal_error", type="KeyError", message="the plugin broke", traceback="")
        sys.exit(5)
    elif what == "fails":
        finish(
            node,
            "failed",
            type="AssertionError",
            message="Scalars are not close!\n\nAbsolute difference: 0.5 (up to 1e-05 allowed)",
        )
        return False
    elif what == "unknown":
        emit("weather", forecast="rain")
        emit("start", node="test_elsewhere.py::never_asked_for")
        finish(node, nonsense=[1, 2])
        return False
    elif what == "flaky":
        if not os.path.exists(f"{LOG}.{name}"):
            open(f"{LOG}.{name}", "w").close()
            finish(node, "failed", type="AssertionError", message="not yet")
            return False
    elif what == "grows":
        finish(node, host_grown=int(argument) << 20, device_grown=0)
        return False
    elif what == "hog":
        held = []
        while True:
            held.append(bytearray(os.urandom(1 << 20) * 16))
    elif what == "rears":
        # Children that share 160 MiB with it, or hold as much of their own.
        held = bytearray(160 << 20)
        held[::4096] = b"x" * (len(held) // 4096)
        children = []
        for _ in range(3):
            ready, tell = os.pipe()
            child = os.fork()
            if child == 0:
                os.setsid()
                if argument == "own":
                    held[::4096] = b"y" * (len(held) // 4096)
                os.write(tell, b"x")
                sleep_forever()
            children.append(child)
            os.read(ready, 1)
        if argument == "own":
            sleep_forever()
        time.sleep(1)  # as long as it takes to be weighed
        for child in children:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
    elif what == "folder":
        os.chdir("/")
    elif what == "mute":
        os.close(1)
        os.close(2)
    elif what == "descriptors":
        try:
            while True:
                os.open("/dev/null", os.O_RDONLY)
        except OSError:
            pass
    elif what == "forks":
        for _ in range(int(argument)):
            if os.fork() == 0:
                log(f"daemon {os.getpid()}")
                sleep_forever()
    elif what == "deaf":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    elif what == "removes":
        os.rmdir(os.environ["FAKE_PROBE_REMOVES"])
    elif what == "twice":
        finish(node)
    finish(node)
    if what == "silence":
        sleep_forever()
    if what == "after":
        os.kill(os.getpid(), int(argument))
    return True


def environment(request):
    emit(
        "environment",
        schema=1,
        probe="fake",
        python="3",
        torch=os.environ.get("FAKE_TORCH", "9.9.9"),
        torch_git="abc",
        pytest="0",
        device={"type": request["device"]["name"], "count": 1, "name": "fake"},
        suite="sha256:1",
        facts={"machine": "fake"},
    )


def run(request):
    file = request["file"]
    log(f"process {file} {len(request['tests'])}")
    if "dies" in file:
        sys.stderr.write("ImportError: libdevice.so\n")
        os._exit(3)
    if "no_space" in file:
        sys.stderr.write("OSError: [Errno 28] No space left on device\n")
        os._exit(1)
    if "stuck" in file:
        sleep_forever()
    if "no_device" in file:
        emit("environment_error", what="device", message="the driver is not loaded")
        sys.exit(4)
    environment(request)
    if "broken" in file:
        emit("collect_error", file=file, type="SyntaxError", message="invalid syntax", traceback="")
        emit("ready", collected=0)
        for node in request["tests"]:
            emit("missing", node=node)
        emit("end")
        return
    emit("ready", collected=len(request["tests"]))
    for node in request["tests"]:
        name = node.rsplit("::", 1)[1]
        if name.startswith("missing"):
            emit("missing", node=node)
            continue
        emit("start", node=node)
        misbehave(name, node)
    emit("end")
    if "lingers" in file:
        sleep_forever()
    if "falls" in file:
        os.kill(os.getpid(), signal.SIGSEGV)


def collect(request):
    """As pytest does: imports all files, then reports all tests."""
    environment(request)
    files = request["suite"]["files"]
    log(f"collect {' '.join(files)}")
    modules, tests = {}, []
    for file in files:
        emit("collecting", file=file)
        if "dies" in file:
            os.kill(os.getpid(), signal.SIGSEGV)
        if "hangs" in file:
            misbehave("hang", file)
        if "broken" in file:
            emit(
                "collect_error",
                file=file,
                type="SyntaxError",
                message="invalid syntax",
                traceback="",
            )
            continue
        if modules.setdefault(os.path.basename(file), file) != file:
            emit(
                "collect_error",
                file=file,
                type="CollectError",
                message="import file mismatch",
                traceback="",
            )
            continue
        variant = {"x": "y" * 5000} if "long" in file else {}
        for name in ("one", "two"):
            tests.append(
                {
                    "node": f"{file}::TestX::{name}",
                    "file": file,
                    "class": "TestX",
                    "method": "one" if "alike" in file else name,
                    "variant": variant if name == "two" else {},
                    "line": 1,
                    "markers": [],
                    "quick": name == "one",
                }
            )
    for test in tests:
        emit("test", **test)
    emit("end")


def main():
    ctypes.CDLL(None).prctl(36, 1)  # PR_SET_CHILD_SUBREAPER
    verb = sys.argv[1]
    request = json.loads(sys.stdin.read())
    if os.environ.get("FAKE_NO_TORCH"):
        emit(
            "environment_error",
            what="torch",
            message="torch cannot be imported by x: ModuleNotFoundError: No module named 'torch'",
        )
        sys.exit(4)
    {"environment": environment, "collect": collect, "run": run}[verb](request)


main()
