"""A workload of the user's own: `python:module:function`."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Mapping
from typing import Any

from crosscheck_probe.environment import EnvironmentFault
from crosscheck_probe.request import BadRequest
from crosscheck_probe.workload.base import Exportable, Workload
from crosscheck_probe.workload.launch import seed_all
from crosscheck_probe.workload.request import Launch

_HOOKS = (
    "setup",
    "inference",
    "step",
    "gradients",
    "state_dict",
    "load_state_dict",
    "close",
)


def load(launch: Launch, device: str) -> Workload:
    """Calls the function; EnvironmentFault where its module is missing.

    A function that takes an argument is given the request's settings as a mapping.
    """
    assert launch.workload is not None
    _, module_name, function_name = launch.workload.split(":")
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not (module_name + ".").startswith(error.name + "."):
            raise
        raise EnvironmentFault("workload", f"the module {module_name} is not found") from error
    function = getattr(module, function_name, None)
    if not callable(function):
        raise BadRequest(f'"workload": {module_name} has no function {function_name}')
    settings = {
        "device": device,
        "phase": launch.phase,
        "precision": launch.precision,
        "seed": launch.seed,
        "shape": dict(launch.shape),
        "size": launch.size,
    }
    seed_all(launch.seed)
    wanted = [
        parameter
        for parameter in inspect.signature(function).parameters.values()
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
    ]
    return UserWorkload(function(settings) if wanted else function())


class UserWorkload(Workload):
    """Hands on to the hooks that the user's object or mapping has; the others stay the default."""

    def __init__(self, given: Any) -> None:
        self._given = given
        for hook in _HOOKS:
            found = self._get(hook)
            if found is not None:
                setattr(self, hook, found)
        self.unit = str(self._get("unit") or "samples")

    @property
    def items(self) -> int | None:  # type: ignore[override]
        found = self._get("items")
        found = found() if callable(found) else found
        return None if found is None else int(found)

    def reference(self) -> tuple[Any, dict[str, Any] | None] | None:
        found = self._get("reference")
        if found is None:
            return None
        said = found()
        return said["output"], said.get("gradients")

    def metric(self) -> dict[str, Any] | None:
        found = self._get("metric")
        if found is None:
            return None
        said = found()
        if said is None:
            return None
        return {
            "name": str(said["name"]),
            "value": float(said["value"]),
            "higher_is_better": bool(said["higher_is_better"]),
        }

    def exportable(self) -> Exportable | None:
        found = self._get("export")
        if found is None:
            return None
        module, arguments, *rest = found()
        dynamic = rest[0] if rest else [None] * len(arguments)
        return Exportable(module, tuple(arguments), tuple(dynamic))

    def _get(self, name: str) -> Any:
        if isinstance(self._given, Mapping):
            return self._given.get(name)
        return getattr(self._given, name, None)
