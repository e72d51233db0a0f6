"""What a launch does besides timing: correctness, determinism, export, checkpoints."""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Callable
from typing import Any

from crosscheck_probe.text import message_of, type_name
from crosscheck_probe.workload.base import Workload
from crosscheck_probe.workload.launch import Failed, seed_all
from crosscheck_probe.workload.measure import (
    describe_output,
    digest_of,
    errors_against,
    host_copy,
    leaves,
    shapes_of,
)
from crosscheck_probe.workload.request import Launch
from crosscheck_probe.workload.seat import Seat

Once = Callable[[], Any]
Check = Callable[[Launch, Workload, Seat, Once, "dict[str, Any]", str], None]

# How far the run after a checkpoint may lie from the one that its writer did.
_CONTINUES_WITHIN = {"float64": 1e-6, "float32": 1e-3, "bfloat16": 5e-2, "float16": 5e-2}
_NEXT_VALUES = 64


def once_of(launch: Launch, workload: Workload) -> Once:
    return workload.step if launch.phase == "training" else workload.inference


def asked_for(launch: Launch) -> list[Check]:
    """Returns the checks in their order: first those that take the state as the run left it."""
    checks: list[Check] = []
    if launch.checkpoint_write is not None:
        checks.append(_write_checkpoint)
    elif "checkpoint" in launch.measure and launch.checkpoint_read is None:
        checks.append(_round_trip)
    if "correctness" in launch.measure:
        checks.append(_correctness)
    if "determinism" in launch.measure:
        checks.append(_determinism)
    if "compile_export" in launch.measure:
        checks.append(_export)
    return checks


def _again(launch: Launch, workload: Workload, once: Once) -> Any:
    seed_all(launch.seed)
    workload.setup()
    return once()


def _correctness(
    launch: Launch, workload: Workload, seat: Seat, once: Once, result: dict[str, Any], scratch: str
) -> None:
    output = _again(launch, workload, once)
    gradients = workload.gradients() if launch.phase == "training" else None
    found = None if gradients is None else {k: host_copy(v) for k, v in gradients.items()}
    if found is not None:
        result["gradients"] = describe_output(found)
    # The same on all ranks: one has it worked out.
    reference = workload.reference() if seat.rank == 0 else None
    if reference is not None:
        try:
            result["output"].update(errors_against(output, reference[0]))
            if found is not None and reference[1] is not None:
                result["gradients"].update(errors_against(found, reference[1]))
        except ValueError as error:
            raise Failed("shape", str(error)) from error
    if found is not None and result["gradients"]["nan"]:
        raise Failed("nan", f"the gradients hold {result['gradients']['nan']} NaN")


def _determinism(
    launch: Launch, workload: Workload, seat: Seat, once: Once, result: dict[str, Any], scratch: str
) -> None:
    counts = {"runs": 0, "forward_mismatches": 0, "backward_mismatches": 0, "shape_mismatches": 0}
    first = None
    for _ in range(launch.determinism_runs):
        output = _again(launch, workload, once)
        gradients = workload.gradients() if launch.phase == "training" else None
        found = (digest_of(output), digest_of(gradients or {}), shapes_of(output))
        output = gradients = None
        first = first or found
        counts["runs"] += 1
        counts["forward_mismatches"] += found[0] != first[0]
        counts["backward_mismatches"] += found[1] != first[1]
        counts["shape_mismatches"] += found[2] != first[2]
    result["determinism"] = counts


def _export(
    launch: Launch, workload: Workload, seat: Seat, once: Once, result: dict[str, Any], scratch: str
) -> None:
    found = workload.exportable()
    if found is not None:
        from crosscheck_probe.workload import export

        result["export"] = export.try_all(found, scratch)


def _round_trip(
    launch: Launch, workload: Workload, seat: Seat, once: Once, result: dict[str, Any], scratch: str
) -> None:
    """Writes and reads in one launch, in a folder of its own."""
    if workload.state_dict() is None:
        return
    folder = seat.shared_folder or os.path.join(scratch, "checkpoint")
    wrote = write_into(launch, workload, seat, folder)
    if wrote["ok"]:
        seed_all(launch.seed)
        workload.setup()
        read = read_from(launch, workload, seat, folder)
        wrote = {**read, "wrote": None, "read": None, "seconds": wrote["seconds"] + read["seconds"]}
    result["checkpoint"] = wrote


def _write_checkpoint(
    launch: Launch, workload: Workload, seat: Seat, once: Once, result: dict[str, Any], scratch: str
) -> None:
    assert launch.checkpoint_write is not None
    if workload.state_dict() is not None:
        result["checkpoint"] = write_into(launch, workload, seat, launch.checkpoint_write)


def write_into(launch: Launch, workload: Workload, seat: Seat, folder: str) -> dict[str, Any]:
    """Writes a checkpoint, then does one run more and notes what it gave."""
    began = time.perf_counter()
    record: dict[str, Any] = {"wrote": folder, "read": None, "digest": None}
    try:
        os.makedirs(folder, exist_ok=True)
        workload.save(folder)
        seconds = time.perf_counter() - began
        record["digest"] = state_digest(workload)
        following = _values_of(once_of(launch, workload)())
        if seat.rank == 0:
            told = {
                "format": 1,
                "workload": launch.name,
                "phase": launch.phase,
                "digest": record["digest"],
                "next": following,
            }
            with open(os.path.join(folder, "checkpoint.json"), "w", encoding="utf-8") as file:
                json.dump(told, file)
        seat.agree(False)  # nobody reads what is not whole
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # DCP's own exception is no Exception
        return {**record, "ok": False, "reason": _told(error), "seconds": _since(began)}
    return {**record, "ok": True, "reason": "", "seconds": seconds}


def read_from(launch: Launch, workload: Workload, seat: Seat, folder: str) -> dict[str, Any]:
    """Loads what `write_into` wrote, and compares the state and the run after it with its."""
    began = time.perf_counter()
    record: dict[str, Any] = {"wrote": None, "read": folder, "digest": None}
    try:
        with open(os.path.join(folder, "checkpoint.json"), encoding="utf-8") as file:
            told = json.load(file)
        workload.load(folder)
        seconds = time.perf_counter() - began
        record["digest"] = state_digest(workload)
        following = _values_of(once_of(launch, workload)())
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        return {**record, "ok": False, "reason": _told(error), "seconds": _since(began)}
    reason = ""
    if record["digest"] != told["digest"]:
        reason = f"the state read is not the one written, which has digest {told['digest']}"
    elif seat.rank > 0:
        pass  # the run that was noted is rank 0's
    elif len(following) != len(told["next"]):
        reason = "the run after it has an output of another size than its writer's"
    else:
        scale = max((abs(x) for x in told["next"]), default=0.0) or 1.0
        apart = max((abs(a - b) for a, b in zip(following, told["next"])), default=0.0) / scale
        if not apart <= _CONTINUES_WITHIN[launch.precision]:
            reason = f"the run after it differs from its writer's by {apart:.3g} of its values"
    return {**record, "ok": not reason, "reason": reason, "seconds": seconds}


def state_digest(workload: Workload) -> str:
    """Returns the digest of all tensors in the state, that of the random generator included.

    Numbers are left out: an optimizer's options get new names from version to version.
    """
    import torch

    state = {"state": workload.state_dict(), "rng": torch.get_rng_state()}
    tensors = [(path, leaf) for path, leaf in leaves(state) if isinstance(leaf, torch.Tensor)]
    return digest_of(dict(tensors))


def _values_of(output: Any) -> list[float]:
    """Returns the first numbers of an output, those that are finite."""
    import torch

    values: list[float] = []
    for _, leaf in leaves(output):
        if isinstance(leaf, torch.Tensor):
            flat = host_copy(leaf).reshape(-1)[:_NEXT_VALUES]
            values += [float(x) for x in flat.to(torch.float64)] if not flat.is_complex() else []
        elif isinstance(leaf, (int, float)):
            values.append(float(leaf))
    return [x for x in values[:_NEXT_VALUES] if math.isfinite(x)]


def _told(error: BaseException) -> str:
    lines = message_of(error).strip().splitlines()
    return f"{type_name(type(error))}: {lines[0] if lines else 'without a text'}"


def _since(began: float) -> float:
    return time.perf_counter() - began
