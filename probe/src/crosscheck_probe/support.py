"""What a backend does with each operator: as the dispatcher has it, as composites call one another,
and as samples of torch's own operator database run on the device.
"""

from __future__ import annotations

import importlib
import importlib.util
import itertools
import os
import re
import warnings
from collections.abc import Iterator
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

from crosscheck_probe.channel import Channel
from crosscheck_probe.request import BadRequest, Device
from crosscheck_probe.text import message_of, type_name

_TAGS = {
    "kernel": "kernel",
    "math kernel": "math",
    "default backend kernel": "default",
    "backend fallback": "fallback",
}
_COMPOSITE = ("math", "default")
# No backend registers under it, so that it has PyTorch's own composite kernels.
_UNUSED_KEY = "PrivateUse2"
# Of one composite, calls whose callees are recorded.
_RECORDED = 8
_NOT_OPERATORS = ("inplace", "_stacklevel", "size_average", "reduce")
_REDUCTIONS = {"none": 0, "mean": 1, "sum": 2}
_MISSING = re.compile(r"Could not run '([^']+)'")
_DTYPE = re.compile(
    r"not implemented for '|[Uu]nsupported (data ?type|dtype)|does not support .*dtype"
)


def run(verb: str, device: Device, raw: dict[str, Any], channel: Channel) -> None:
    """Does `support` or `samples`."""
    warnings.simplefilter("ignore")
    if verb == "support":
        _describe(device, raw, channel)
    else:
        _sample(device, raw, channel)


def prepare() -> None:
    """Imports what takes seconds, so that silence afterwards is an operator's."""
    try:
        importlib.import_module("torch.testing._internal.common_methods_invocations")
    except Exception:
        pass  # said where it is used


# The dispatcher


def dispatch_key(device: Device) -> str:
    if device.module is not None:
        return "PrivateUse1"
    known = getattr(torch._C, "_dispatch_key_for_device", None)
    return str(known(device.name)) if known is not None else device.name.upper()


def kernel_of(table: str, key: str) -> tuple[str, str]:
    """Returns which kernel a dump of the dispatcher's table has for `key`, and where it is from."""
    for line in table.splitlines():
        if not line.startswith(key + ": "):
            continue
        tag = line[line.rfind("[") + 1 : line.rfind("]")]
        place = re.search(r"registered at (\S+)", line)
        return _TAGS.get(tag, "kernel"), place.group(1) if place else ""
    return "none", ""


def kernels(key: str) -> dict[str, tuple[str, str]]:
    names = getattr(torch._C, "_dispatch_get_all_op_names", _schema_names)()
    return {
        name: kernel_of(torch._C._dispatch_dump_table(name), key)
        for name in sorted(names)
        if name.startswith("aten::")
    }


def _schema_names() -> set[str]:
    """Returns torch 1.13's operators; TorchScript's own, which have no table, are not theirs."""
    schemas = torch._C._jit_get_all_schemas()
    names = {f"{s.name}.{s.overload_name}" if s.overload_name else s.name for s in schemas}
    return {name for name in names if "registered at" in torch._C._dispatch_dump_table(name)}


def full_name(overload: Any) -> str:
    name = str(overload.name())
    return name.removesuffix(".default")


def _overload(name: str) -> Any:
    base, _, overload = name.removeprefix("aten::").partition(".")
    return getattr(getattr(torch.ops.aten, base), overload or "default")


def cannot_fall_back(name: str) -> str:
    """Returns why a fallback that copies tensors to the CPU is of no use to it, or nothing."""
    base, _, overload = name.partition(".")
    schema = torch._C._get_schema(base, overload)
    aliases = (r.alias_info for r in schema.returns)
    if any(alias is not None and not alias.is_write for alias in aliases):
        return "view"
    if not any("Tensor" in str(argument.type) for argument in schema.arguments):
        return "factory"
    tags = getattr(_overload(name), "tags", ())
    if any(getattr(tag, "name", "") == "nondeterministic_seeded" for tag in tags):
        return "random"
    return ""


# What torchgen's own list says of operators that no sample reaches


def generated_from(text: str) -> dict[str, tuple[str, tuple[str, ...]]]:
    """Returns for operators of native_functions.yaml how their kernels are made, and of which.

    A line at a time, as torchgen lays the file out: the package that reads YAML need not be there.
    """
    found: dict[str, tuple[str, tuple[str, ...]]] = {}
    name = ""
    for line in text.splitlines():
        if line.startswith("- func: "):
            name = "aten::" + line[len("- func: ") :].partition("(")[0].strip()
        elif line.startswith("  structured_delegate: "):
            delegate = "aten::" + line.partition(": ")[2].strip()
            in_place = name.partition(".")[0].endswith("_")
            callees = (delegate,) if in_place else (delegate, "aten::empty_strided")
            found[name] = ("structured_delegate", callees)
        elif line.startswith("  autogen: "):
            for made in line.partition(": ")[2].split(","):
                out = made.strip().endswith("out")
                found["aten::" + made.strip()] = (
                    "autogen",
                    (name, "aten::copy_" if out else "aten::clone"),
                )
    return found


def native_functions() -> str:
    spec = importlib.util.find_spec("torchgen")
    if spec is None or spec.origin is None:
        return ""
    path = os.path.join(
        os.path.dirname(spec.origin), "packaged", "ATen", "native", "native_functions.yaml"
    )
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except OSError:
        return ""


# Callees


class Recorder(TorchDispatchMode):
    """Runs composites on the CPU as they would run on a device without kernels for them."""

    def __init__(self, composites: set[str]) -> None:
        super().__init__()
        self.callees: dict[str, set[str]] = {}
        self._composites = composites
        self._counts: dict[str, int] = {}
        self._frames: list[set[str]] = []
        key = getattr(torch._C.DispatchKey, _UNUSED_KEY)
        self._keys = torch._C.DispatchKeySet(key)

    def wants(self, name: str) -> bool:
        return name in self._composites and self._counts.get(name, 0) < _RECORDED

    def record(self, overload: Any, args: Any, kwargs: Any) -> Any:
        name = full_name(overload)
        self._counts[name] = self._counts.get(name, 0) + 1
        self._frames.append(set())
        try:
            with self:
                result = overload.redispatch(self._keys, *args, **kwargs)
        finally:
            frame = self._frames.pop()
        self.callees.setdefault(name, set()).update(frame - {name})
        return result

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = full_name(func)
        if self._frames:
            self._frames[-1].add(name)
        if self.wants(name):
            return self.record(func, args, kwargs or {})
        return func(*args, **(kwargs or {}))


def resolve(func: Any, args: Any, kwargs: Any) -> Any:
    """Returns the operator's overload that a function of torch's Python interface stands for.

    `kwargs` become those that it takes.
    """
    name = str(getattr(func, "__name__", ""))
    if not name or (name.startswith("__") and name.endswith("__")):
        return None
    packet = getattr(torch.ops.aten, name, None)
    if packet is None:
        return None
    try:
        return getattr(packet, torch._C._jit_resolve_packet("aten::" + name, *args, **kwargs))
    except (RuntimeError, TypeError, AttributeError):
        pass
    # Functions of torch.nn.functional take more than their operators do.
    fewer = {key: value for key, value in kwargs.items() if key not in _NOT_OPERATORS}
    if isinstance(fewer.get("reduction"), str):
        fewer["reduction"] = _REDUCTIONS.get(fewer["reduction"], 0)
    if fewer == kwargs:
        return None
    kwargs.clear()
    kwargs.update(fewer)
    return resolve(func, args, kwargs)


class CallRecorder(TorchFunctionMode):
    """Hands calls of composites to a recorder; those are gone by the time the dispatcher calls."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()
        self._recorder = recorder

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        taken = dict(kwargs)
        overload = resolve(func, args, taken)
        if overload is not None and self._recorder.wants(full_name(overload)):
            try:
                self._recorder.record(overload, *tree_map(_copied, (args, taken)))
            except Exception:
                pass  # the call itself follows, and says what is wrong
        return func(*args, **kwargs)


class FirstCall(TorchFunctionMode):
    """Knows the first operator that was called."""

    def __init__(self) -> None:
        super().__init__()
        self.name = ""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if not self.name:
            overload = resolve(func, args, dict(kwargs or {}))
            if overload is not None:
                self.name = full_name(overload)
        return func(*args, **(kwargs or {}))


def _copied(value: Any) -> Any:
    return value.detach().clone() if isinstance(value, torch.Tensor) else value


# Samples


def operator_infos(wanted: set[str] | None) -> Iterator[Any]:
    """Yields torch's descriptions of operators; `wanted`: only these, without overloads."""
    from torch.testing._internal.common_methods_invocations import op_db

    for info in op_db:
        names = {info.aten_name, info.name.rpartition(".")[2]}
        names |= {alias.name for alias in getattr(info, "aliases", ()) or ()}
        if wanted is None or names & wanted:
            yield info


def unit_of(info: Any) -> str:
    return str(info.full_name if hasattr(info, "full_name") else info.name)


def dtypes_of(info: Any) -> list[str]:
    return sorted(str(dtype).removeprefix("torch.") for dtype in info.supported_dtypes("cpu"))


def samples_of(info: Any, dtype: str, most: int) -> list[Any]:
    made = info.sample_inputs("cpu", getattr(torch, dtype), requires_grad=False)
    return list(itertools.islice(made, most))


def _describe(device: Device, raw: dict[str, Any], channel: Channel) -> None:
    key = dispatch_key(device)
    table = kernels(key)
    generated = generated_from(native_functions())
    for name, (kernel, place) in table.items():
        line: dict[str, Any] = {"op": name, "kernel": kernel, "registered": place}
        if kernel == "fallback":
            line["cannot_fall_back"] = cannot_fall_back(name)
        if kernel in _COMPOSITE and name in generated:
            line["made_as"], line["made_of"] = generated[name]
        channel.emit("operator", **line)
    wanted = _bare_names(raw)
    recorder = Recorder({name for name, (kernel, _) in table.items() if kernel in _COMPOSITE})
    try:
        infos = list(operator_infos(wanted))
        if not hasattr(torch._ops.OpOverload, "redispatch"):
            raise ImportError(f"torch {torch.__version__} cannot redispatch an operator")
    except Exception as error:
        channel.emit("support_note", message=f"no samples: {message_of(error)}")
        return
    for info in infos:
        dtypes = dtypes_of(info)
        channel.emit("unit", unit=unit_of(info), dtypes=dtypes)
        if dtypes:
            _record(info, "float32" if "float32" in dtypes else dtypes[0], recorder)
    for name, callees in sorted(recorder.callees.items()):
        channel.emit("callees", op=name, callees=sorted(callees))


def _record(info: Any, dtype: str, recorder: Recorder) -> None:
    try:
        samples = samples_of(info, dtype, _RECORDED)
    except Exception:
        return
    aliases = getattr(info, "aliases", ()) or ()
    functions = [info.inplace_variant, *(alias.op for alias in aliases)]
    for sample in samples:
        result = _called(recorder, info.op, sample, {})
        if getattr(info, "supports_out", False) and isinstance(result, torch.Tensor):
            _called(recorder, info.op, sample, {"out": torch.empty_like(result)})
        for function in functions:
            if function is not None:
                _called(recorder, function, sample, {})


def _called(recorder: Recorder, function: Any, sample: Any, further: dict[str, Any]) -> Any:
    values = tree_map(_copied, (sample.input, sample.args, sample.kwargs))
    try:
        with CallRecorder(recorder), recorder:
            return function(values[0], *values[1], **values[2], **further)
    except Exception:
        return None  # a sample that this call does not take


def _bare_names(raw: dict[str, Any]) -> set[str] | None:
    wanted = raw.get("operators")
    if wanted is None:
        return None
    if not isinstance(wanted, list) or not all(isinstance(name, str) for name in wanted):
        raise BadRequest('"operators" must be a list of texts')
    bare = {name.removeprefix("aten::").partition(".")[0] for name in wanted}
    return bare | {name.rstrip("_") for name in bare}


def _sample(device: Device, raw: dict[str, Any], channel: Channel) -> None:
    most = raw.get("samples", 4)
    units = raw.get("units")
    if not isinstance(units, list) or not isinstance(most, int):
        raise BadRequest('"units" must be a list and "samples" a number')
    infos = {unit_of(info): info for info in operator_infos(None)}
    for unit in units:
        name = str(unit.get("unit"))
        for dtype in unit.get("dtypes", ()):
            channel.emit("sampling", unit=name, dtype=dtype, operators=[])
            samples = _taken_samples(infos[name], dtype, most) if name in infos else []
            operators = sorted({operator for operator, _ in samples})
            channel.emit("sampling", unit=name, dtype=dtype, operators=operators)
            results = _run_on(device.name, infos[name], samples) if samples else []
            channel.emit("sampled", unit=name, dtype=dtype, results=results)


def _taken_samples(info: Any, dtype: str, most: int) -> list[tuple[str, Any]]:
    """Returns samples that the CPU takes, each with the operator that it begins with."""
    taken = []
    try:
        for sample in samples_of(info, dtype, most):
            first = FirstCall()
            arguments = tree_map(_copied, (sample.input, sample.args, sample.kwargs))
            try:
                with first:
                    info.op(arguments[0], *arguments[1], **arguments[2])
            except Exception:
                continue
            taken.append((first.name, sample))
    except Exception:
        pass  # it makes none, or no more, for this type
    return taken


def _run_on(device: str, info: Any, samples: list[tuple[str, Any]]) -> list[dict[str, Any]]:
    """Runs samples on the device; returns a result for each operator that they begin with."""
    results: dict[str, dict[str, Any]] = {}
    for operator, sample in samples:
        result = results.setdefault(operator, {"op": operator, "ran": 0, "of": 0})
        result["of"] += 1
        try:
            arguments = _moved((sample.input, sample.args, sample.kwargs), device)
            info.op(arguments[0], *arguments[1], **arguments[2])
            _synchronize(device)
        except Exception as error:
            if "outcome" not in result:
                result.update(_judged(error))
        else:
            result["ran"] += 1
    for result in results.values():
        result.setdefault("outcome", "runs")
    return [results[name] for name in sorted(results)]


def _moved(values: Any, device: str) -> Any:
    def one(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return value.to(device)
        # Of factories, which have no tensor to say where.
        is_host = isinstance(value, (str, torch.device)) and str(value) == "cpu"
        return torch.device(device) if is_host else value

    return tree_map(one, values)


def _synchronize(device: str) -> None:
    synchronize = getattr(getattr(torch, device, None), "synchronize", None)
    if synchronize is not None:
        synchronize()


def _judged(error: Exception) -> dict[str, Any]:
    text = message_of(error)
    missing = _MISSING.search(text)
    if isinstance(error, NotImplementedError) and missing:
        return {"outcome": "missing", "missing": missing.group(1), "message": text.split("\n")[0]}
    outcome = "unsupported" if _DTYPE.search(text) else "error"
    return {"outcome": outcome, "message": f"{type_name(type(error))}: {text}"[:1000]}
