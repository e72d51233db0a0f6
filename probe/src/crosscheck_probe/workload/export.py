"""Takes a module out of its process: torch.export, with dimensions that vary, and AOTInductor."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import torch

from crosscheck_probe.text import message_of, type_name
from crosscheck_probe.workload.base import Exportable
from crosscheck_probe.workload.children import Guard

_FRESH_PROCESS_S = 300.0
_TOLERANCE = {torch.float64: 1e-9, torch.float32: 1e-4}

# Run as a program of its own: it must see nothing of the process that compiled.
_FRESH = """
import sys, torch
folder = sys.argv[1]
told = torch.load(folder + "/told.pt")
found = torch._inductor.aoti_load_package(folder + "/model.pt2")(*told["arguments"])
found = found if torch.is_tensor(found) else found[0]
torch.testing.assert_close(found, told["output"], rtol=told["within"], atol=told["within"])
"""


def try_all(what: Exportable, scratch: str) -> dict[str, dict[str, Any] | None]:
    """Returns for each way whether it works; None where this torch has it not."""
    arguments = tuple(one.detach() for one in what.arguments)
    if not hasattr(getattr(torch, "export", None), "export"):
        return {"export": None, "dynamic": None, "aot_inductor": None}
    module = what.module
    training = module.training
    module.eval()
    try:
        with torch.no_grad():
            exported: list[Any] = []
            return {
                "export": _tried(lambda: exported.append(_export(module, arguments))),
                "dynamic": _tried(lambda: _vary(module, arguments, what.dynamic)),
                "aot_inductor": _aot_inductor(module, arguments, exported, scratch),
            }
    finally:
        module.train(training)


def _export(module: torch.nn.Module, arguments: tuple[Any, ...]) -> Any:
    program = torch.export.export(module, arguments)
    _compare(program.module()(*arguments), module(*arguments))
    return program


def _vary(
    module: torch.nn.Module, arguments: tuple[Any, ...], dynamic: tuple[dict[int, str] | None, ...]
) -> None:
    """Exports with the dimensions that vary, and runs the program on another extent of them."""
    names = sorted({name for one in dynamic for name in (one or {}).values()})
    dimensions = {name: torch.export.Dim(name, min=2, max=4096) for name in names}
    shapes = tuple(
        {dimension: dimensions[name] for dimension, name in (one or {}).items()} or None
        for one in dynamic
    )
    program = torch.export.export(module, arguments, dynamic_shapes=shapes)
    other = list(arguments)
    for index, one in enumerate(dynamic):
        for dimension in one or {}:
            other[index] = torch.cat([other[index], other[index]], dimension).contiguous()
    _compare(program.module()(*other), module(*other))


def _aot_inductor(
    module: torch.nn.Module, arguments: tuple[Any, ...], exported: list[Any], scratch: str
) -> dict[str, Any] | None:
    try:
        from torch._inductor import aoti_compile_and_package
    except ImportError:
        return None
    if not exported:
        return {"ok": False, "reason": "there is no exported program to compile"}

    def compile_and_run() -> None:
        folder = os.path.join(scratch, "aot")
        os.makedirs(folder, exist_ok=True)
        aoti_compile_and_package(exported[0], package_path=os.path.join(folder, "model.pt2"))
        output = module(*arguments)
        told = {"arguments": list(arguments), "output": output, "within": _within(output)}
        torch.save(told, os.path.join(folder, "told.pt"))
        _run_fresh(folder)

    return _tried(compile_and_run)


def _run_fresh(folder: str) -> None:
    with Guard() as guard:
        process = guard.start(
            [sys.executable, "-c", _FRESH, folder],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
        )
        try:
            _, said = process.communicate(timeout=_FRESH_PROCESS_S)
        finally:
            guard.end(process)
    if process.returncode != 0:
        lines = [line for line in str(said).splitlines() if line.strip()]
        how = f"the fresh process ended with {process.returncode}"
        raise RuntimeError(f"{how}: {lines[-1]}" if lines else how)


def _compare(found: Any, wanted: Any) -> None:
    within = _within(wanted)
    torch.testing.assert_close(found, wanted, rtol=within, atol=within)


def _within(output: Any) -> float:
    return _TOLERANCE.get(output.dtype, 5e-2)


def _tried(what: Callable[[], Any]) -> dict[str, Any]:
    try:
        what()
    except Exception as error:
        lines = message_of(error).strip().splitlines()
        told = f"{type_name(type(error))}: {lines[0] if lines else 'without a text'}"
        return {"ok": False, "reason": told}
    return {"ok": True, "reason": ""}
