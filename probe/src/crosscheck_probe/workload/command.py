"""A command as the workload: each iteration is one run of it."""

from __future__ import annotations

import hashlib
import os
import subprocess
import tempfile
import threading
import time
from typing import Any

from crosscheck_probe.workload import machine
from crosscheck_probe.workload.children import Guard, kill_group
from crosscheck_probe.workload.launch import (
    GRACE_S,
    Failed,
    Write,
    blank,
    note_failure,
    prepare_process,
    use_cache,
)
from crosscheck_probe.workload.request import Launch
from crosscheck_probe.workload.seat import Seat


def perform(launch: Launch, write: Write) -> None:
    """Runs the command as often as asked and hands the result to `write`.

    Its standard output is its output; another exit status than 0 fails it. `process_cpu_s` and the
    peak of memory are those of the command and the children it waited for.
    """
    result = blank(launch)
    result["unit"], result["items_per_iteration"] = "runs", 1
    with tempfile.TemporaryDirectory(prefix="crosscheck-workload-") as scratch:
        try:
            prepare_process(launch, Seat())
            use_cache(launch, scratch)
            with Guard() as guard:
                _iterate(launch, guard, result)
            result["status"] = "ok"
        except KeyboardInterrupt:
            raise
        except Exception as error:
            note_failure(result, error)
        result["environment"] = machine.variables()
        write(result)


def _iterate(launch: Launch, guard: Guard, result: dict[str, Any]) -> None:
    began = time.monotonic()
    peak = mismatches = 0
    first = None
    runs = launch.warmup + launch.iterations
    for index in range(-1, runs):
        left = None
        if launch.time_limit_s is not None:
            left = began + launch.time_limit_s + GRACE_S - time.monotonic()
        said, taken, memory = _run(launch, guard, left)
        if index < 0:
            result["first_run_s"] = taken["wall_s"]
            result["output"] = {
                "digest": said,
                "shape": [],
                "dtype": [],
                **dict.fromkeys(("nan", "inf"), 0),
                **dict.fromkeys(("rmse", "max_error", "cosine")),
                **dict.fromkeys(("reference_norm", "reference_projection")),
            }
            first = said
            continue
        mismatches += said != first
        is_warmup = index < launch.warmup
        result["iterations"].append({**taken, "warmup": is_warmup})
        peak = peak if is_warmup else max(peak, memory)
        if (
            launch.time_limit_s is not None
            and not is_warmup
            and time.monotonic() - began >= launch.time_limit_s
        ):
            result["stopped_early"] = index < runs - 1
            break
    result["peak_memory_bytes"], result["peak_memory_since"] = peak or None, "start"
    if "determinism" in launch.measure:
        result["determinism"] = {
            "runs": len(result["iterations"]) + 1,
            "forward_mismatches": mismatches,
            "backward_mismatches": 0,
            "shape_mismatches": 0,
        }


def _run(
    launch: Launch, guard: Guard, limit: float | None
) -> tuple[str, dict[str, float | None], int]:
    assert launch.command is not None
    digest = hashlib.sha256()
    started = time.perf_counter()
    process = guard.start(list(launch.command), stdout=subprocess.PIPE)
    timed_out = threading.Event()

    def give_up() -> None:
        timed_out.set()
        kill_group(process)

    def read() -> None:
        assert process.stdout is not None
        while chunk := process.stdout.read(1 << 16):
            digest.update(chunk)

    timer = threading.Timer(limit, give_up) if limit is not None else None
    reader = threading.Thread(target=read)
    try:
        reader.start()
        if timer is not None:
            timer.start()
        _, status, used = os.wait4(process.pid, 0)
        wall = time.perf_counter() - started
        process.returncode = os.waitstatus_to_exitcode(status)
    finally:
        if timer is not None:
            timer.cancel()
        # What it leaves running may hold its output open.
        guard.end(process)
        reader.join()
    if timed_out.is_set():
        raise Failed("timeout", "the command did not end in time, and was ended")
    if process.returncode < 0:
        raise Failed("signal", f"the command died of signal {-process.returncode}")
    if process.returncode > 0:
        raise Failed("exit_status", f"the command exited {process.returncode}")
    taken = {
        "wall_s": wall,
        "thread_cpu_s": None,
        "process_cpu_s": used.ru_utime + used.ru_stime,
    }
    return "sha256:" + digest.hexdigest(), taken, used.ru_maxrss * 1024
