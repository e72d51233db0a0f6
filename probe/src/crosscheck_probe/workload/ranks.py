"""Several processes as one launch: started, watched, merged, and again where one is lost."""

from __future__ import annotations

import datetime
import json
import math
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
from typing import Any

from crosscheck_probe.environment import EnvironmentFault
from crosscheck_probe.request import BadRequest, read_request
from crosscheck_probe.workload.children import Guard, die_with_parent
from crosscheck_probe.workload.launch import (
    GRACE_S,
    Failed,
    Write,
    blank,
    note_failure,
)
from crosscheck_probe.workload.launch import (
    perform as perform_alone,
)
from crosscheck_probe.workload.machine import torch_device
from crosscheck_probe.workload.request import Launch, parse_launch
from crosscheck_probe.workload.seat import Seat

# Its ranks are started by torchrun.
BY_LAUNCHER = "communication.torchrun_all_reduce"

_EXIT_USAGE = 2
_EXIT_ENVIRONMENT = 4
# How long the others may take to notice that a rank is gone, and to end after one has.
_NOTICE_S = 30.0
# How many iterations that count are done before a rank is killed, where there are more.
_BEFORE_DEATH = 2


def perform(launch: Launch, write: Write) -> None:
    """Runs the case on its ranks and hands one result to `write`: rank 0's, with all the others.

    Raises what `perform` of a launch alone raises.
    """
    result = blank(launch)
    with tempfile.TemporaryDirectory(prefix="crosscheck-ranks-") as folder, Guard() as guard:
        try:
            recovery = None
            if launch.kill_rank is not None:
                recovery = _lose_one(launch, guard, folder)
            team = _Team(launch, guard, os.path.join(folder, "whole"), resume=recovery is not None)
            result = _whole(launch, team, team.run())
            if recovery is not None:
                result["recovery"] = _recovered(launch, recovery, team)
        except (BadRequest, EnvironmentFault, KeyboardInterrupt):
            raise
        except Exception as error:
            note_failure(result, error)
    write(result)


class _Team:
    """One group of ranks in a folder of its own: `run` starts them and waits for all."""

    def __init__(self, launch: Launch, guard: Guard, folder: str, *, resume: bool) -> None:
        self._launch = launch
        self._guard = guard
        self.folder = folder
        self._codes: list[int] = []
        shared = os.path.join(os.path.dirname(folder), "shared")
        os.makedirs(folder)
        os.makedirs(shared, exist_ok=True)
        told = {"world": launch.ranks, "shared": shared, "resume": resume}
        for name, value in (("request", launch.raw), ("team", told)):
            with open(os.path.join(folder, f"{name}.json"), "w", encoding="utf-8") as file:
                json.dump(value, file)

    def run(self, die: int | None = None) -> list[dict[str, Any] | None]:
        """Returns the ranks' results, None for one that left none. `die`: the rank that is to."""
        ended: queue.Queue[int] = queue.Queue()
        processes = (
            [self._start_launcher()]
            if self._launch.workload == BY_LAUNCHER
            else [self._start(rank, die) for rank in range(self._launch.ranks)]
        )
        for rank, process in enumerate(processes):
            threading.Thread(
                target=lambda r=rank, p=process: (p.wait(), ended.put(r)), daemon=True
            ).start()
        limit = self._launch.time_limit_s
        deadline = None if limit is None else time.monotonic() + 3 * (limit + GRACE_S)
        running = set(range(len(processes)))
        try:
            while running:
                left = None if deadline is None else max(deadline - time.monotonic(), 0.0)
                try:
                    rank = ended.get(timeout=left)
                except queue.Empty:
                    break
                running.discard(rank)
                if processes[rank].returncode != 0 or self._has_failed(rank):
                    soon = time.monotonic() + _NOTICE_S
                    deadline = soon if deadline is None else min(deadline, soon)
        finally:
            for process in processes:
                self._guard.end(process)
        self._codes = [process.returncode for process in processes]
        for process in processes:
            if process.returncode == _EXIT_USAGE:
                raise BadRequest("a rank refused the request; it says why above")
            if process.returncode == _EXIT_ENVIRONMENT:
                raise EnvironmentFault("torch", "a rank could not import; it says why above")
        return [self.result_of(rank) for rank in range(self._launch.ranks)]

    def _has_failed(self, rank: int) -> bool:
        found = self.result_of(rank)
        return found is not None and found["status"] != "ok"

    def how_ended(self, rank: int) -> str:
        """Says how the process of a rank without a result ended, after `run`."""
        is_launched = self._launch.workload == BY_LAUNCHER
        who, code = (
            ("torchrun", self._codes[0]) if is_launched else (f"rank {rank}", self._codes[rank])
        )
        how = f"died of signal {-code}" if code < 0 else f"exited {code}"
        return f"{who} {how}, and rank {rank} has no result"

    def result_of(self, rank: int) -> dict[str, Any] | None:
        return _read(os.path.join(self.folder, f"rank-{rank}.json"))

    def moments(self, what: str) -> list[float]:
        """Returns when ranks noted `what`, by the clock that all processes share."""
        found = (self.moment(what, rank) for rank in range(self._launch.ranks))
        return [at for at in found if at is not None]

    def moment(self, what: str, rank: int) -> float | None:
        found = _read(os.path.join(self.folder, f"{what}-{rank}.json"))
        return None if found is None else float(found["at"])

    def _start(self, rank: int, die: int | None) -> subprocess.Popen[Any]:
        command = [sys.executable, "-m", "crosscheck_probe.workload.ranks", self.folder, str(rank)]
        if die == rank:
            command.append("die")
        return self._guard.start(command)

    def _start_launcher(self) -> subprocess.Popen[Any]:
        """Starts torchrun, which starts the ranks and has them meet at a port that is free."""
        return self._guard.start(
            [
                *(sys.executable, "-m", "torch.distributed.run"),
                *("--nnodes", "1", "--nproc_per_node", str(self._launch.ranks)),
                *("--rdzv_backend", "c10d", "--rdzv_endpoint", "localhost:0"),
                *("--max_restarts", "0", "-m", "crosscheck_probe.workload.ranks"),
                *(self.folder, "env"),
            ]
        )


def _whole(launch: Launch, team: _Team, results: list[dict[str, Any] | None]) -> dict[str, Any]:
    """Returns rank 0's result with what all ranks measured, or that of the first one to fail."""
    there = [one for one in results if one is not None]
    # The others fail for the first one's sake, and know less of why.
    order = sorted(range(len(results)), key=lambda r: team.moment("noticed", r) or math.inf)
    unlike = [r for r in map(results.__getitem__, order) if r is not None and r["status"] != "ok"]
    if len(there) < len(results):
        lost = results.index(None)
        whole = dict(unlike[0] if unlike else blank(launch))
        note_failure(whole, Failed("rank_lost", team.how_ended(lost)))
        return whole
    whole = dict(unlike[0] if unlike else there[0])
    ranks = [one["ranks"][0] for one in there if one["ranks"]]
    whole["ranks"] = ranks if len(ranks) == len(there) else None
    if not unlike:
        peaks = [one["peak_memory_bytes"] for one in ranks]
        whole["peak_memory_bytes"] = None if None in peaks else max(peaks)
        for key in ("forward_mismatches", "backward_mismatches", "shape_mismatches"):
            if whole["determinism"] is not None:
                whole["determinism"][key] = max(one["determinism"][key] for one in there)
    return whole


def _lose_one(launch: Launch, guard: Guard, folder: str) -> dict[str, Any]:
    """Runs until the rank has died and all others have failed for it; returns what was seen."""
    team = _Team(launch, guard, os.path.join(folder, "lost"), resume=False)
    results = team.run(die=launch.kill_rank)
    died = team.moments("died")
    others = [one for rank, one in enumerate(results) if rank != launch.kill_rank]
    if not died:
        failed = next((one for one in results if one is not None), None)
        why = failed["reason"] if failed is not None else "no rank has a result"
        if failed is not None and failed["status"] == "not_run":
            return {"died": None, "noticed": [], "reason": why, "unnoticed": 0}
        raise Failed("rank_lost", f"the ranks failed before one was killed: {why}")
    return {
        "died": died[0],
        "noticed": team.moments("noticed"),
        "unnoticed": sum(one is None for one in others),
        "reason": next((one["reason"] for one in others if one is not None), ""),
    }


def _recovered(launch: Launch, seen: dict[str, Any], team: _Team) -> dict[str, Any] | None:
    if seen["died"] is None:
        return None
    again = team.moments("first")
    resumed = [
        one
        for one in (
            _read(os.path.join(team.folder, f"resumed-{rank}.json")) for rank in range(launch.ranks)
        )
        if one is not None
    ]
    reason = ""
    if seen["unnoticed"]:
        reason = f"{seen['unnoticed']} ranks did not notice within {_NOTICE_S:g} s"
    elif len(again) < launch.ranks:
        reason = "not all ranks did a first run again"
    else:
        reason = next((one["reason"] for one in resumed if not one["ok"]), "")
    return {
        "killed": launch.kill_rank,
        "detected_s": max(seen["noticed"]) - seen["died"] if seen["noticed"] else None,
        "restarted_s": max(again) - seen["died"] if again else None,
        "ok": not reason,
        "reason": reason,
    }


def _read(path: str) -> Any:
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except FileNotFoundError:
        return None


class Rank(Seat):
    """One of the ranks: they meet in a file, so that no two launches want one port."""

    def __init__(self, launch: Launch, folder: str, rank: int, dies: bool) -> None:
        team = _read(os.path.join(folder, "team.json"))
        self.rank = rank
        self.world = team["world"]
        self.shared_folder = os.path.join(team["shared"], "checkpoint")
        self.resumes = bool(team["resume"])
        self._launch = launch
        self._folder = folder
        self._dies = dies
        self._snapshot = os.path.join(team["shared"], "snapshot")
        self._keeps_snapshot = launch.kill_rank is not None and not self.resumes

    def join(self) -> None:
        import torch
        import torch.distributed as dist

        from crosscheck_probe.workload.base import NotRun

        device = torch_device(self._launch.device.name)
        backend = {"cpu": "gloo", "cuda": "nccl"}.get(device)
        if backend is None:
            raise NotRun(f"there are no collectives for {device} here")
        if not dist.is_available() or not getattr(dist, f"is_{backend}_available", lambda: True)():
            raise NotRun(f"this torch is built without {backend}")
        if device == "cuda":
            if torch.cuda.device_count() < self.world:
                raise NotRun(f"{self.world} ranks want more devices than there are")
            torch.cuda.set_device(self.rank)
        limit = self._launch.time_limit_s or 600.0
        is_launched = self._launch.workload == BY_LAUNCHER
        dist.init_process_group(
            backend,
            init_method="env://"
            if is_launched
            else f"file://{os.path.join(self._folder, 'store')}",
            rank=self.rank,
            world_size=self.world,
            timeout=datetime.timedelta(seconds=limit + GRACE_S),
        )
        self._flag = torch.zeros(1, device=device)

    def ready(self, workload: Any) -> None:
        """After set-up: takes up where the group that lost a rank had left a snapshot."""
        if self.resumes and workload.state_dict() is not None:
            from crosscheck_probe.workload.checks import read_from

            found = read_from(self._launch, workload, self, self._snapshot)
            self._note("resumed", ok=found["ok"], reason=found["reason"])

    def first_done(self, workload: Any) -> None:
        self._note("first")
        if self._keeps_snapshot and workload.state_dict() is not None:
            from crosscheck_probe.workload.checks import write_into

            write_into(self._launch, workload, self, self._snapshot)

    def agree(self, stop: bool) -> tuple[bool, float]:
        import torch.distributed as dist

        self._flag.fill_(float(stop))
        began = time.perf_counter()
        dist.all_reduce(self._flag, op=dist.ReduceOp.MAX)
        return bool(self._flag.item()), time.perf_counter() - began

    def before(self, iteration: int) -> None:
        if self._dies and iteration == min(_BEFORE_DEATH, self._launch.iterations - 1):
            self._note("died")
            os.kill(os.getpid(), signal.SIGKILL)

    def failed(self) -> None:
        self._note("noticed")

    def leave(self) -> None:
        """Nothing is destroyed in order where a rank is lost: that would wait for it."""

    def _note(self, what: str, **more: Any) -> None:
        path = os.path.join(self._folder, f"{what}-{self.rank}.json")
        with open(path + ".new", "w", encoding="utf-8") as file:
            json.dump({"at": time.monotonic(), "pid": os.getpid(), **more}, file)
        os.replace(path + ".new", path)


def main(arguments: list[str]) -> int:
    from crosscheck_probe.workload.__main__ import write_result

    folder, rank, *how = arguments
    die_with_parent()
    rank = os.environ["RANK"] if rank == "env" else rank
    try:
        launch = parse_launch(read_request(os.path.join(folder, "request.json")))
        seat = Rank(launch, folder, int(rank), how == ["die"])
        target = os.path.join(folder, f"rank-{rank}.json")
        perform_alone(launch, seat, lambda result: write_result(target, result))
    except BadRequest as error:
        sys.stderr.write(f"crosscheck_probe: {error}\n")
        return _EXIT_USAGE
    except EnvironmentFault as fault:
        sys.stderr.write(f"crosscheck_probe: {fault}\n")
        return _EXIT_ENVIRONMENT
    return 0


if __name__ == "__main__":
    from crosscheck_probe.leaving import leave

    leave(main(sys.argv[1:]))
