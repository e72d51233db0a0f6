"""Stands in for an interpreter with torch: answers what `crosscheck gate` asks as its side says.

The measurement interface is real (processes, requests, results); only the numbers are made.
behaviour.json beside this script:
  time: factor, noise: share               of what timing launches answer
  answer: {}, timing: {}                   merged into exact and timing answers
  act: crash | hang | garbage | nothing | ranks, when: timing | exact | reading
  build: {}, load: []                      of the preflight
"""

import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import time

HERE = pathlib.Path(sys.argv[0]).parent


def merge(into, more):
    for key, value in more.items():
        if isinstance(value, dict) and isinstance(into.get(key), dict):
            merge(into[key], value)
        else:
            into[key] = value


def act(how, result):
    if how == "crash":
        os.kill(os.getpid(), signal.SIGSEGV)
    if how == "hang":
        (HERE / "hanging").write_text(str(os.getpid()))
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        time.sleep(3600)
    if how == "ranks":
        child = subprocess.Popen(["sleep", "3600"])
        (HERE / "rank").write_text(str(child.pid))
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "garbage":
        for _ in range(100):
            os.write(1, b"x" * (1 << 20))
        pathlib.Path(result).write_text("{not json")
        sys.exit(0)
    if how == "nothing":
        sys.exit(0)


def main():
    if sys.argv[1:2] == ["-c"]:
        print(sys.argv[0], "2.13.0")
        return
    behaviour = json.loads((HERE / "behaviour.json").read_text())
    if sys.argv[3:4] == ["--preflight"]:
        build = {"blas": "mkl", "vector_isa": "avx512"} | behaviour.get("build", {})
        facts = {
            "build": build,
            "load": behaviour.get("load", [0, 0, 0]),
            "cpus": {"online": 2},
        }
        print(json.dumps(facts))
        return
    request_path, result_path = sys.argv[3:5]
    request = json.loads(pathlib.Path(request_path).read_text())
    with open(HERE / "launches", "a") as log:
        log.write(json.dumps(request["measure"]) + "\n")
    timing = "latency" in request["measure"]
    reading = request["checkpoint"] is not None and "read" in request["checkpoint"]
    purpose = "timing" if timing else "reading" if reading else "exact"
    if behaviour.get("when", purpose) == purpose:
        act(behaviour.get("act"), result_path)
    answer = {
        "format": 1,
        "status": "ok",
        "versions": {"torch": behaviour.get("torch", "2.13.0")},
    }
    if timing:
        noise = random.Random(os.urandom(8)).gauss(0, behaviour.get("noise", 0))
        wall = 0.01 * behaviour.get("time", 1) * (1 + noise)
        iteration = {"wall_s": wall, "thread_cpu_s": wall, "warmup": False}
        answer["iterations"] = [{**iteration, "warmup": True}] + [iteration] * request[
            "iterations"
        ]
        answer["items_per_iteration"] = 8
        answer["peak_memory_bytes"] = 100_000_000
        merge(answer, behaviour.get("timing", {}))
    else:
        output = {"digest": "aa", "shape": [2, 3], "nan": 0, "inf": 0, "rmse": 1e-7}
        answer |= {
            "output": output,
            "gradients": dict(output),
            "determinism": {
                "runs": 5,
                "forward_mismatches": 0,
                "backward_mismatches": 0,
                "shape_mismatches": 0,
            },
            "counters": {"graph_breaks": 0, "recompiles": 0, "captured_calls": 3},
            "export": {
                "export": {"ok": True, "reason": ""},
                "aot_inductor": {"ok": True, "reason": ""},
            },
            "checkpoint": {"ok": True, "reason": ""},
        }
        merge(answer, behaviour.get("answer", {}))
    pathlib.Path(result_path).write_text(json.dumps(answer))


main()
