"""One launch: prepares the process, runs the workload, makes the result of the contract."""

from __future__ import annotations

import gc
import math
import os
import shutil
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable
from typing import Any

from crosscheck_probe import environment
from crosscheck_probe.request import BadRequest, Device
from crosscheck_probe.text import message_of, type_name
from crosscheck_probe.workload import machine
from crosscheck_probe.workload.catalogue import Case, find
from crosscheck_probe.workload.request import FORMAT, Launch
from crosscheck_probe.workload.seat import Seat

_TRACEBACK_LINES = 20
# How long past its time limit a launch may take for what is not to be interrupted.
GRACE_S = 60.0

Write = Callable[[dict[str, Any]], None]


class Failed(Exception):
    """The workload did something that makes it fail. `mode` is the result's failure_mode."""

    def __init__(self, mode: str, reason: str) -> None:
        super().__init__(reason)
        self.mode = mode


def blank(launch: Launch) -> dict[str, Any]:
    """Returns a result with every key, for a launch of which nothing is known yet."""
    return {
        "format": FORMAT,
        "workload": launch.name,
        "status": "failed",
        "reason": "",
        "failure_mode": None,
        "traceback": "",
        "versions": machine.versions(),
        "build": None,
        "threads": None,
        "cpus": machine.affinity(),
        "governor": machine.governor(),
        "load": machine.load(),
        "environment": {},
        "iterations": [],
        "stopped_early": False,
        "items_per_iteration": None,
        "unit": "samples",
        "first_run_s": None,
        "compile_s": None,
        "restart_s": None,
        "peak_memory_bytes": None,
        "peak_memory_since": None,
        "memory_before_bytes": None,
        "device_peak_memory_bytes": None,
        "counters": None,
        "output": None,
        "gradients": None,
        "determinism": None,
        "export": None,
        "metric": None,
        "checkpoint": None,
        "fallback": None,
        "ranks": None,
        "recovery": None,
    }


def prepare_process(launch: Launch, seat: Seat) -> None:
    """Sets what must be set before torch is imported: processors, threads, compile cache."""
    if launch.cpus is not None and hasattr(os, "sched_setaffinity"):
        share = launch.cpus[seat.rank :: seat.world] if seat.world <= len(launch.cpus) else None
        try:
            os.sched_setaffinity(0, share or launch.cpus)
        except OSError as error:
            print(f"crosscheck_probe: the processors stay as they are: {error}", file=sys.stderr)
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = str(launch.threads)
    # Compiling in other processes would load the machine while it measures.
    os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")
    # Ranks of one machine meet there, whatever its name resolves to.
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo" if sys.platform == "linux" else "lo0")
    if launch.deterministic:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")


def use_cache(launch: Launch, scratch: str) -> None:
    """Makes torch's compiler use the warm folder, or one below `scratch` that is empty."""
    folder = launch.cache_dir or os.path.join(scratch, "cache")
    os.makedirs(folder, exist_ok=True)
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = folder
    os.environ["TRITON_CACHE_DIR"] = os.path.join(folder, "triton")


def perform(launch: Launch, seat: Seat, write: Write) -> None:
    """Carries the launch out and hands the result to `write`.

    Raises BadRequest and EnvironmentFault, for which there is no result. The process may be ended
    by its watchdog, which hands over what there is, where something takes too long.
    """
    result = blank(launch)
    watchdog = Watchdog(launch, seat, result, write)
    with tempfile.TemporaryDirectory(prefix="crosscheck-workload-") as scratch:
        watchdog.scratch = scratch
        try:
            prepare_process(launch, seat)
            use_cache(launch, scratch)
            _measure(launch, seat, result, scratch, watchdog)
            result["status"] = "ok"
        except (BadRequest, environment.EnvironmentFault, KeyboardInterrupt):
            watchdog.cancel()
            raise
        except BaseException as error:
            seat.failed()
            note_failure(result, error)
        watchdog.cancel()
        _note_process(result)
        write(result)
        seat.leave()


def _measure(
    launch: Launch, seat: Seat, result: dict[str, Any], scratch: str, watchdog: Watchdog
) -> None:
    case = None if launch.is_users else find(launch)
    _import_torch(launch)
    import torch

    from crosscheck_probe.workload import checks
    from crosscheck_probe.workload.measure import (
        PeakMemory,
        describe_output,
        seconds_since_start,
        synchroniser,
    )

    torch.set_num_threads(launch.threads)
    try:
        torch.set_num_interop_threads(launch.threads)
    except RuntimeError:
        pass  # something imported has used them already; the result says how many there are
    if launch.deterministic:
        torch.use_deterministic_algorithms(True)
    reason = machine.missing_device(launch.device.name)
    if reason is not None:
        from crosscheck_probe.workload.base import NotRun

        raise NotRun(reason)
    device = machine.torch_device(launch.device.name)
    seat.join()
    workload = _make(launch, case, seat, device)
    try:
        seed_all(launch.seed)
        workload.setup()
        result["restart_s"] = seconds_since_start()
        seat.ready(workload)
        watchdog.fed()
        once = checks.once_of(launch, workload)
        if launch.checkpoint_read is not None and workload.state_dict() is not None:
            folder = launch.checkpoint_read
            result["checkpoint"] = checks.read_from(launch, workload, seat, folder)
        clock = _Clock(once, synchroniser(device))
        first, result["first_run_s"] = clock.first()
        seat.first_done(workload)
        result["output"] = describe_output(first)
        first = None
        _refuse_nan(result["output"], "the first run's output")
        watchdog.fed()
        last = _iterate(launch, seat, clock, result, peak := PeakMemory(device), watchdog)
        result.update(peak.read())
        result["ranks"][0]["peak_memory_bytes"] = result["peak_memory_bytes"]
        _refuse_nan(describe_output(last), "the last iteration's output")
        last = None
        result["items_per_iteration"], result["unit"] = workload.items, workload.unit
        result["metric"] = workload.metric()
        if workload.compiled or has_compiled():
            result["counters"] = clock.counters
            steady = sorted(i["wall_s"] for i in result["iterations"] if not i["warmup"])
            middle = steady[len(steady) // 2] if steady else 0.0
            result["compile_s"] = max(result["first_run_s"] - middle, 0.0)
        result["fallback"] = workload.fallback()
        if result["metric"] is not None and not math.isfinite(result["metric"]["value"]):
            raise Failed("nan", f"{result['metric']['name']} is {result['metric']['value']}")
        for check in checks.asked_for(launch):
            watchdog.fed()
            check(launch, workload, seat, once, result, scratch)
    finally:
        workload.close()


def _iterate(
    launch: Launch,
    seat: Seat,
    clock: _Clock,
    result: dict[str, Any],
    peak: Any,
    watchdog: Watchdog,
) -> Any:
    """Runs warm-up and what counts; returns the last output."""
    began = time.monotonic()
    limit = launch.time_limit_s
    waited = total = 0.0
    output = None
    if launch.warmup == 0:
        _settle(peak)
    for index in range(launch.warmup + launch.iterations):
        is_warmup = index < launch.warmup
        if not is_warmup:
            seat.before(index - launch.warmup)
        output = None
        output, taken = clock.iteration()
        result["iterations"].append({**taken, "warmup": is_warmup})
        # A limit that warm-up used up still leaves one iteration that counts.
        over = limit is not None and time.monotonic() - began >= limit and not is_warmup
        stop, wait = seat.agree(over)
        watchdog.fed()
        if not is_warmup:
            waited += wait
            total += taken["wall_s"]
        if index == launch.warmup - 1:
            _settle(peak)
        if stop:
            result["stopped_early"] = index < launch.warmup + launch.iterations - 1
            break
    clock.count()
    result["ranks"] = [{"wall_s": total, "wait_s": waited}]
    return output


def _settle(peak: Any) -> None:
    gc.collect()
    peak.reset()


class _Clock:
    """Times single runs, and counts the graphs that were compiled for them."""

    def __init__(self, once: Callable[[], Any], synchronise: Callable[[], None]) -> None:
        self._once = once
        self._synchronise = synchronise
        self._graphs_of_first = 0
        self.counters: dict[str, int] | None = None

    def first(self) -> tuple[Any, float]:
        output, taken = self.iteration()
        self._graphs_of_first = _counted()["unique_graphs"]
        return output, taken["wall_s"]

    def iteration(self) -> tuple[Any, dict[str, float]]:
        self._synchronise()
        process, thread, wall = time.process_time(), time.thread_time(), time.perf_counter()
        output = self._once()
        self._synchronise()
        return output, {
            "wall_s": time.perf_counter() - wall,
            "thread_cpu_s": time.thread_time() - thread,
            "process_cpu_s": time.process_time() - process,
        }

    def count(self) -> None:
        found = _counted()
        self.counters = {**found, "recompiles": found["unique_graphs"] - self._graphs_of_first}


def has_compiled() -> bool:
    return _counted()["unique_graphs"] > 0


def _has_generated() -> bool:
    """Whether code was generated, for whose sake the vector instructions are found out."""
    counters = getattr(sys.modules.get("torch._dynamo.utils"), "counters", {})
    return sum(counters.get("inductor", {}).values()) > 0


def _counted() -> dict[str, int]:
    utils = sys.modules.get("torch._dynamo.utils")
    counters = getattr(utils, "counters", {})
    stats = counters.get("stats", {})
    return {
        "graph_breaks": sum(counters.get("graph_break", {}).values()),
        "captured_calls": int(stats.get("calls_captured", 0)),
        "unique_graphs": int(stats.get("unique_graphs", 0)),
    }


def _make(launch: Launch, case: Case | None, seat: Seat, device: str) -> Any:
    import importlib

    import torch

    from crosscheck_probe.workload import base

    dtype = getattr(torch, launch.precision)
    if case is None:
        from crosscheck_probe.workload import user

        return user.load(launch, device)
    lane = importlib.import_module(f"crosscheck_probe.workload.lanes.{case.lane}")
    shape = {**case.sizes[launch.size], **launch.shape}
    place = torch.device(device, seat.rank) if case.distributed and device != "cpu" else device
    settings = base.Settings(launch, shape, torch.device(place), dtype, seat.rank, seat.world)
    workload = lane.make(case.name.split(".", 1)[1], settings)
    workload.unit = case.unit
    return workload


def _import_torch(launch: Launch) -> None:
    device = launch.device
    environment.prepare(
        Device(machine.torch_device(device.name), device.module, device.path), test_machinery=False
    )
    os.environ.pop("PYTORCH_TESTING_DEVICE_ONLY_FOR", None)


def seed_all(seed: int) -> None:
    import random

    import torch

    random.seed(seed)
    torch.manual_seed(seed)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(seed % 2**32)


def _refuse_nan(output: dict[str, Any], what: str) -> None:
    if output["nan"]:
        raise Failed("nan", f"{what} holds {output['nan']} NaN")


def note_failure(result: dict[str, Any], error: BaseException) -> None:
    """Writes into `result` what an exception says of the workload."""
    message = message_of(error).strip()
    first = message.splitlines()[0] if message else "without a text"
    told = "crosscheck_probe.workload"
    is_own = type(error).__module__.startswith(told)
    result["reason"] = first if is_own else f"{type_name(type(error))}: {first}"
    if type(error).__name__ == "NotRun" and is_own:
        result["status"] = "not_run"
        return
    result["status"] = "failed"
    result["failure_mode"] = _mode_of(error, message)
    try:
        lines = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    except Exception:
        lines = result["reason"]
    result["traceback"] = "\n".join(lines.splitlines()[-_TRACEBACK_LINES:])


def _mode_of(error: BaseException, message: str) -> str:
    if isinstance(error, Failed):
        return error.mode
    if isinstance(error, MemoryError) or "out of memory" in message.lower():
        return "out_of_memory"
    if "does not have a deterministic implementation" in message:
        return "no_deterministic_implementation"
    if (
        isinstance(error, NotImplementedError)
        or "not implemented for" in message
        or "does not support" in message
    ):
        return "unsupported"
    if type(error).__module__.startswith(("torch._dynamo", "torch._inductor")):
        return "compile"
    return "exception"


def _note_process(result: dict[str, Any]) -> None:
    result["versions"] = machine.versions()
    result["environment"] = machine.variables()
    result["cpus"] = machine.affinity()
    if "torch" in sys.modules:
        result["build"] = machine.build(ask_compiler=_has_generated())
        result["threads"] = machine.threads()


class Watchdog:
    """Hands over a result and ends the process where one stage takes longer than is waited for.

    A stage is what lies between two calls of `fed`; each has the time limit and GRACE_S. It sleeps
    meanwhile. A workload that holds the interpreter itself is the gate's to end.
    """

    def __init__(self, launch: Launch, seat: Seat, result: dict[str, Any], write: Write) -> None:
        self.scratch: str | None = None
        self._seat = seat
        self._result = result
        self._write = write
        self._main = threading.get_ident()
        self._over = threading.Event()
        self._last = time.monotonic()
        self._allowed = math.inf
        if launch.time_limit_s is not None:
            self._allowed = launch.time_limit_s + GRACE_S
            threading.Thread(target=self._watch, daemon=True).start()

    def fed(self) -> None:
        self._last = time.monotonic()

    def cancel(self) -> None:
        self._over.set()

    def _watch(self) -> None:
        while True:
            left = self._last + self._allowed - time.monotonic()
            if left <= 0:
                return self._end()
            if self._over.wait(left):
                return None

    def _end(self) -> None:
        frame = sys._current_frames().get(self._main)
        lines = "".join(traceback.format_stack(frame)).splitlines() if frame is not None else []
        result = dict(self._result, iterations=list(self._result["iterations"]))
        result.update(
            status="failed",
            failure_mode="timeout",
            reason=f"did nothing new for {self._allowed:g} s, and was ended",
            traceback="\n".join(lines[-_TRACEBACK_LINES:]),
        )
        self._seat.failed()
        self._write(result)
        if self.scratch is not None:
            shutil.rmtree(self.scratch, ignore_errors=True)
        os._exit(0)
