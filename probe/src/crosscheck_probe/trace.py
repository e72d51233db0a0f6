"""Which operators a test uses, in which phase of it, and how often.

The phases: `setup` (fixtures, setUp, tearDown and the making of inputs), `forward` (the test's
own), `backward` (while autograd runs) and `comparison` (while a result is compared). What compiled
graphs hold is a list of graphs beside them.
"""

from __future__ import annotations

import functools
import sys
import unittest
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar

from crosscheck_probe.request import Trace

PHASES = ("setup", "forward", "backward", "comparison")

_F = TypeVar("_F", bound=Callable[..., Any])


class Recorder(Protocol):
    """Sees operators while it is told to. `take` gives what was seen since, and forgets it."""

    def recording(self) -> Any: ...
    def enter(self, phase: int) -> None: ...
    def take(self) -> dict[str, dict[str, int]]: ...
    def graphs(self) -> list[dict[str, Any]]: ...


class Tracer:
    """Tells a recorder in which phase a test is. Installs itself into torch's test machinery once,
    after that is imported and before the files of tests are."""

    def __init__(self, trace: Trace) -> None:
        self._recorder = _recorder(trace)
        self._stack = [PHASES.index("setup")]
        self._compiles = False  # the test that runs
        self._always = False  # the file, while it was imported
        self._testing = False
        self._install()

    @contextmanager
    def test(self) -> Iterator[None]:
        """Records while one test runs, set-up and tear-down included."""
        self._stack[:] = [PHASES.index("setup")]
        self._recorder.enter(self._stack[-1])
        self._take()
        self._testing = True
        try:
            with self._recorder.recording():
                yield
        finally:
            self._testing = False

    def take(self) -> dict[str, Any]:
        """Returns the fields of the test's `finish` line."""
        fields = self._take()
        if self._compiles or self._always:
            fields["compiles"] = True
        self._compiles = False
        return fields

    def _take(self) -> dict[str, Any]:
        fields: dict[str, Any] = {"operators": self._recorder.take()}
        graphs = self._recorder.graphs()
        return {**fields, "graphs": graphs} if graphs else fields

    def enter(self, phase: str) -> None:
        """Counts what runs from here on, on whatever thread, to `phase`, until `leave`."""
        self._stack.append(PHASES.index(phase))
        self._recorder.enter(self._stack[-1])

    def leave(self) -> None:
        self._stack.pop()
        self._recorder.enter(self._stack[-1])

    def within(self, phase: str, function: _F) -> _F:
        """Returns `function` between `enter` and `leave`, which stand in it, not called: a gradient
        test calls such functions by the thousand."""
        number, stack, enter = PHASES.index(phase), self._stack, self._recorder.enter

        @functools.wraps(function)
        def inside(*arguments: Any, **keywords: Any) -> Any:
            stack.append(number)
            enter(number)
            try:
                return function(*arguments, **keywords)
            finally:
                stack.pop()
                enter(stack[-1])

        return inside  # type: ignore[return-value]

    def _install(self) -> None:
        import torch
        import torch.testing
        from torch.autograd import Variable
        from torch.testing._internal.common_utils import TestCase

        TestCase.assertEqual = self.within("comparison", TestCase.assertEqual)
        self._replace(torch.testing.assert_close, "comparison")
        self._replace(torch.testing.make_tensor, "setup")
        Variable._execution_engine = _Engine(Variable._execution_engine, self)
        # pytest's `call` holds setUp and tearDown too.
        own: Any = unittest.TestCase
        own._callTestMethod = self.within("forward", own._callTestMethod)
        compile_function = getattr(torch, "compile", None)
        if compile_function is not None:
            torch.compile = self._noting(compile_function)

    def _replace(self, function: Callable[..., Any], phase: str) -> None:
        """Also where another module of torch's test machinery has imported it by name."""
        wrapped = self.within(phase, function)
        for name, module in list(sys.modules.items()):
            if not name.startswith("torch.testing"):
                continue
            for key, value in list(vars(module).items()):
                if value is function:
                    setattr(module, key, wrapped)

    def _noting(self, function: _F) -> _F:
        @functools.wraps(function)
        def noting(*arguments: Any, **keywords: Any) -> Any:
            if self._testing:
                self._compiles = True
            else:
                self._always = True
            return function(*arguments, **keywords)

        return noting  # type: ignore[return-value]


class _Engine:
    """torch's autograd engine, with what it runs counted to the phase `backward`."""

    def __init__(self, engine: Any, tracer: Tracer) -> None:
        self._engine = engine
        self.run_backward = tracer.within("backward", engine.run_backward)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)


def _recorder(trace: Trace) -> Recorder:
    if trace.observer == "dispatch-mode":
        return _make_mode_recorder()
    if trace.observer == "record-function":
        from crosscheck_probe.observer import FunctionRecorder

        return FunctionRecorder(trace.library or "")
    from crosscheck_probe.graphs import GraphRecorder

    return GraphRecorder()


def _make_mode_recorder() -> Recorder:
    from torch.utils._python_dispatch import TorchDispatchMode

    class ModeRecorder(TorchDispatchMode):
        """What PyTorch's users know: operators below autograd, of the thread that runs the test."""

        def __init__(self) -> None:
            super().__init__()
            self._seen: list[Counter[str]] = [Counter() for _ in PHASES]
            self._now = self._seen[0]

        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            self._now[_name_of(func)] += 1
            return func(*args, **(kwargs or {}))

        def recording(self) -> Any:
            return self

        def enter(self, phase: int) -> None:
            self._now = self._seen[phase]

        def take(self) -> dict[str, dict[str, int]]:
            taken = {p: dict(sorted(s.items())) for p, s in zip(PHASES, self._seen) if s}
            for seen in self._seen:
                seen.clear()
            return taken

        def graphs(self) -> list[dict[str, Any]]:
            return []

    return ModeRecorder()


@functools.cache
def _name_of(func: Any) -> str:
    """An overload as torch's dispatcher names it: `aten::add.Tensor`, `aten::relu`."""
    schema = getattr(func, "_schema", None)
    if schema is None:
        return f"higher_order::{getattr(func, '__name__', func)}"
    return f"{schema.name}.{schema.overload_name}" if schema.overload_name else str(schema.name)
