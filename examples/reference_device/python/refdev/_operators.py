"""Which operators the device executes: the configuration, checked against torch's dispatcher."""

from __future__ import annotations

import difflib
import json
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import torch

DEFAULT_SET = "core"
FAULTS = ("wrong_value", "raise", "crash", "hang")
# Without a CPU kernel under their own names; the library runs them as `convolution` on the CPU.
_THROUGH_CONVOLUTION = ("aten::convolution_overrideable", "aten::convolution_backward_overrideable")
# They have CPU kernels, but what these return or choose is of no use to another device.
_NOT_FOR_DEVICES = ("aten::_fused_sdp_choice", "aten::_to_sparse", "aten::to_mkldnn")
_COMPOSED = (
    "CompositeImplicitAutograd",
    "CompositeExplicitAutograd",
    "CompositeExplicitAutogradNonFunctional",
)


class ConfigError(RuntimeError):
    """The configuration cannot be used; the text says where and what would do."""


@dataclass(frozen=True)
class Configuration:
    """`operators`: the names executed through the CPU, sorted, each with its overload."""

    name: str
    operators: tuple[str, ...]
    faults: dict[str, str] = field(default_factory=dict)
    memory_mib: int | None = None


def load_configuration(path: str | None) -> Configuration:
    """Reads the file at `path`; None is the default. Raises ConfigError."""
    if path is None:
        return parse_configuration({}, "the default")
    try:
        with open(path, encoding="utf-8") as file:
            raw = json.load(file)
    except (OSError, ValueError) as error:
        raise ConfigError(f"REFDEV_CONFIG {path}: {error}") from error
    return parse_configuration(raw, f"REFDEV_CONFIG {path}")


def parse_configuration(raw: Any, where: str) -> Configuration:
    if not isinstance(raw, dict):
        raise ConfigError(f"{where}: expected a JSON object")
    known = ("operators", "faults", "memory_mib")
    for key in raw:
        if key not in known:
            raise ConfigError(f"{where}: unknown member {key!r}{_nearest(key, known)}")
    wanted = raw.get("operators", {"set": DEFAULT_SET})
    if wanted == "all":
        name, operators = "all", executable()
    elif isinstance(wanted, dict) and list(wanted) == ["set"] and isinstance(wanted["set"], str):
        name = wanted["set"]
        operators = read_set(name, where)
    elif isinstance(wanted, list) and all(isinstance(o, str) for o in wanted):
        name, operators = "list", wanted
    else:
        raise ConfigError(
            f'{where}: "operators" must be "all", {{"set": "name"}} or a list of names'
        )
    chosen = tuple(sorted(set(check_operators(operators, where))))
    faults = raw.get("faults", {})
    if not isinstance(faults, dict):
        raise ConfigError(f'{where}: "faults" must be an object, operator to kind')
    for operator, kind in faults.items():
        if kind not in FAULTS:
            raise ConfigError(
                f"{where}: {operator}: the fault must be one of {', '.join(FAULTS)}, not {kind!r}"
            )
        if operator not in chosen:
            raise ConfigError(
                f"{where}: a fault for {operator}, which this device does not execute"
                f"{_nearest(operator, chosen)}"
            )
    memory = raw.get("memory_mib")
    if memory is not None and (not isinstance(memory, int) or memory < 1):
        raise ConfigError(f'{where}: "memory_mib" must be a whole number of at least 1')
    return Configuration(name, chosen, dict(faults), memory)


def read_set(name: str, where: str) -> list[str]:
    """Returns the names in a shipped set: one a line, `#` begins a comment."""
    folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "sets")
    there = sorted(f[:-4] for f in os.listdir(folder) if f.endswith(".txt"))
    if name not in there:
        raise ConfigError(f"{where}: there is no set {name!r}, only {', '.join(there)}")
    with open(os.path.join(folder, name + ".txt"), encoding="utf-8") as file:
        lines = (line.split("#")[0].strip() for line in file)
        return [line for line in lines if line]


def check_operators(names: Iterable[str], where: str) -> list[str]:
    """Returns `names` without those the device has natively; each must be executable."""
    known = set(torch._C._dispatch_get_all_op_names())
    native = set(torch._C._dispatch_get_registrations_for_dispatch_key("PrivateUse1"))
    able = set(executable())
    chosen = []
    for name in names:
        if name not in known:
            raise ConfigError(f"{where}: there is no operator {name!r}{_nearest(name, known)}")
        if name in native:
            continue
        if name not in able:
            raise ConfigError(
                f"{where}: {name} cannot be executed through the CPU: it is a view, a factory or "
                "composed of other operators; list those"
            )
        chosen.append(name)
    return chosen


def executable() -> list[str]:
    """Returns every operator that a call of its CPU kernel can stand in for."""
    registered = torch._C._dispatch_get_registrations_for_dispatch_key
    composed = {name for key in _COMPOSED for name in registered(key)}
    native = set(registered("PrivateUse1"))
    found = set(_THROUGH_CONVOLUTION)
    for name in registered("CPU"):
        if not name.startswith("aten::") or name.startswith(_NOT_FOR_DEVICES):
            continue
        if name not in native and name not in composed and _has_tensor_and_is_no_view(name):
            found.add(name)
    return sorted(found)


def _has_tensor_and_is_no_view(name: str) -> bool:
    base, _, overload = name.partition(".")
    schema = torch._C._get_schema(base, overload)
    for result in schema.returns:
        if result.alias_info is not None and not result.alias_info.is_write:
            return False
    return any("Tensor" in str(argument.type) for argument in schema.arguments)


def _nearest(name: str, known: Iterable[str]) -> str:
    known = sorted(known)
    close = [k for k in known if k.startswith(name + ".")]
    close = close or difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    return f"; the nearest is {close[0]!r}" if close else ""
