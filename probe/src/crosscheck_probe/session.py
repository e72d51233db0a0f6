"""The pytest session inside the process: collects, or runs what was asked for, and reports it."""

from __future__ import annotations

import inspect
import os
import sys
from collections import Counter
from collections.abc import Generator, Iterable
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import pytest

from crosscheck_probe.channel import Channel
from crosscheck_probe.environment import restore_device_type
from crosscheck_probe.facts import TestFacts, facts_of, shorten
from crosscheck_probe.memory import Memory
from crosscheck_probe.request import Suite, Trace
from crosscheck_probe.text import (
    MESSAGE_LIMIT,
    TRACEBACK_LIMIT,
    clip,
    message_of,
    traceback_of,
    type_name,
)

_HARNESS_PLUGINS = (
    "cacheprovider",
    "doctest",
    "junitxml",
    "pastebin",
    "stepwise",
    "terminal",
    "threadexception",
    "unraisableexception",
    "warnings",
)
_UNEXPECTED_SUCCESS = "Unexpected success"


@dataclass
class _Failure:
    phase: str
    type: str
    message: str
    traceback: str


@dataclass
class _Running:
    """One execution of one test, from its start line to its finish line."""

    phase: str = "setup"
    seconds: float = 0.0
    failures: list[_Failure] = field(default_factory=list)
    failed: bool = False
    skipped: str | None = None
    skip_phase: str = "call"
    xfailed: str | None = None
    xpassed: str | None = None
    strict: bool = False


class Session:
    """A pytest plugin that speaks the protocol.

    `tests`: the node ids to run, in that order; none with `collect_only` or for all of the file.
    """

    def __init__(
        self,
        channel: Channel,
        suite: Suite,
        collect_only: bool,
        tests: tuple[str, ...] | None = None,
        repeat: int = 1,
        device: str = "cpu",
        trace: Trace | None = None,
    ) -> None:
        self._channel = channel
        self._suite = suite
        self._collect_only = collect_only
        self._tests = tests
        self._repeat = repeat
        self._memory = Memory(device)
        self._used: tuple[int, int] | None = None  # when the latest test had ended
        self._tracer = _tracer_of(trace)
        self._running: _Running | None = None
        self._last_error: BaseException | None = None
        self._folder = os.getcwd()
        self._missing: list[str] = []
        self._complete = False
        self.internal_error: BaseException | None = None

    def run(self, files: Iterable[str]) -> None:
        """Runs pytest over `files`, relative to the suite's root; sets `internal_error`."""
        os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
        for variable in ("PYTEST_ADDOPTS", "PYTEST_PLUGINS"):
            os.environ.pop(variable, None)
        arguments = ["-c", os.devnull, "--rootdir", self._suite.root, "--noconftest"]
        arguments += ["--capture=no", "--continue-on-collection-errors"]
        for plugin in _HARNESS_PLUGINS:
            arguments += ["-p", f"no:{plugin}"]
        arguments += [os.path.join(self._suite.root, file) for file in files]
        phases = [_Phases(self._tracer)] if self._tracer else []
        try:
            pytest.main(arguments, plugins=[self, *phases])
        except Exception as error:
            # Once all was reported, what pytest meets while it ends changes nothing: a test may
            # have closed descriptors that pytest means to close.
            if not self._complete:
                self.internal_error = error
        if not self._complete and self.internal_error is None:
            self.internal_error = RuntimeError(
                "pytest ended before it ran anything; see its output"
            )

    def pytest_configure(self, config: pytest.Config) -> None:
        # pytest's other styles print the arguments of the functions in a traceback, and the text
        # of a tensor runs operators on the device under test.
        config.option.tbstyle = "native"

    # Collection

    @pytest.hookimpl(hookwrapper=True)
    def pytest_make_collect_report(self, collector: Any) -> Generator[None, Any, None]:
        is_file = isinstance(collector, pytest.Module)
        if is_file:
            restore_device_type()
        if is_file and self._collect_only:
            self._channel.emit("collecting", file=self._file_of(collector))
        result = yield
        # SystemExit and KeyboardInterrupt while a file is imported end pytest; here, the file.
        error = result.excinfo[1] if result.excinfo else None
        if error is not None:
            self._report_collect_error(collector, error)
            result.force_result(
                pytest.CollectReport(collector.nodeid, "failed", message_of(error), [])
            )
            return
        report = result.get_result()
        if report.failed:
            call = getattr(report, "call", None)
            error = call.excinfo.value if call is not None and call.excinfo else None
            if isinstance(error, collector.CollectError) and error.__cause__ is not None:
                error = error.__cause__
            self._report_collect_error(collector, error, str(report.longrepr))
        elif report.skipped and is_file:
            reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
            self._channel.emit(
                "collect_skip",
                file=self._file_of(collector),
                message=clip(_skip_reason(str(reason)), MESSAGE_LIMIT),
            )

    def _report_collect_error(
        self, collector: Any, error: BaseException | None, text: str = ""
    ) -> None:
        self._channel.emit(
            "collect_error",
            file=self._file_of(collector),
            type=type_name(type(error)) if error is not None else "CollectError",
            message=message_of(error) if error is not None else clip(text, MESSAGE_LIMIT),
            traceback=traceback_of(error) if error is not None else clip(text, TRACEBACK_LIMIT),
        )

    def _file_of(self, node: Any) -> str:
        path = os.path.realpath(str(getattr(node, "path", None) or node.fspath))
        return os.path.relpath(path, self._suite.root)

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, session: Any, config: Any, items: list[Any]) -> None:
        if self._collect_only:
            self._report_collected(items)
            return
        if self._tests is None:
            return
        found = {item.nodeid: item for item in items}
        self._missing = [node for node in self._tests if node not in found]
        items[:] = [found[node] for node in self._tests if node in found]

    def _report_collected(self, items: list[Any]) -> None:
        facts = [(item, self._facts_of(item)) for item in items]
        # Two tests that hold the same parameters are told apart by their collected names, and where
        # their classes bear one name by their place in the file.
        for case in (_name, _place):
            seen = Counter(self._identity(item, fact) for item, fact in facts)
            for item, fact in facts:
                if seen[self._identity(item, fact)] > 1:
                    fact.variant["case"] = shorten(case(item))
        for item, fact in facts:
            self._channel.emit(
                "test",
                node=item.nodeid,
                file=self._file_of(item),
                **{"class": fact.class_name},
                method=fact.method,
                variant=fact.variant,
                line=fact.line,
                source=fact.source,
                markers=list(fact.markers),
                quick=fact.quick,
            )

    def _identity(self, item: Any, fact: TestFacts) -> Any:
        variant = tuple(sorted(fact.variant.items()))
        return (self._file_of(item), fact.class_name, fact.method, variant)

    def _facts_of(self, item: Any) -> TestFacts:
        cls = getattr(item, "cls", None)
        name = getattr(item, "originalname", None) or item.name
        try:
            # Asking the item makes a TestCase, which may cost a device; the class has the function.
            function = inspect.getattr_static(cls, name) if cls else item.obj
        except AttributeError:
            function = item.obj
        function = getattr(function, "__func__", function)
        callspec = getattr(item, "callspec", None)
        return facts_of(
            name,
            cls,
            function,
            str(getattr(item, "path", None) or item.fspath),
            tuple(mark.name for mark in item.iter_markers()),
            dict(callspec.params) if callspec is not None else None,
            item.name,
        )

    # Execution

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: Any) -> bool | None:
        if self._collect_only:
            self._complete = True
            return True
        self._channel.emit("ready", collected=len(session.items))
        for node in self._missing:
            self._channel.emit("missing", node=node)
        order = [item for _ in range(self._repeat) for item in session.items]
        for index, item in enumerate(order):
            following = order[index + 1] if index + 1 < len(order) else None
            self._run_one(session, item, following)
        self._complete = True
        return True

    def _run_one(self, session: Any, item: Any, following: Any) -> None:
        self._channel.emit("start", node=item.nodeid)
        if self._used is None:
            self._used = self._memory.held()
        before = self._used
        running = self._running = _Running()
        try:
            with self._tracer.test() if self._tracer else nullcontext():
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        except (KeyboardInterrupt, SystemExit, pytest.exit.Exception) as error:
            # These mean to end pytest. They cost the test that raised them and no other.
            self._fail(error)
            try:
                session._setupstate.teardown_exact(following)
            except BaseException as broken:
                running.phase = "teardown"
                self._fail(broken)
        self._running = None
        self._used = self._memory.held()
        host, device = (after - then for after, then in zip(self._used, before))
        traced = self._tracer.take() if self._tracer else {}
        self._channel.emit(
            "finish",
            node=item.nodeid,
            **_verdict(running),
            host_grown=host,
            device_grown=device,
            **traced,
        )
        self._restore_folder()

    def _fail(self, error: BaseException) -> None:
        running = self._running
        assert running is not None
        running.failed = running.failed or running.phase == "call"
        running.failures.append(
            _Failure(running.phase, type_name(type(error)), message_of(error), traceback_of(error))
        )

    def _restore_folder(self) -> None:
        try:
            moved = os.getcwd() != self._folder
        except OSError:
            moved = True
        if moved:
            os.chdir(self._folder)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: Any) -> None:
        self._enter("setup")

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_call(self, item: Any) -> None:
        self._enter("call")
        running = self._running
        original = getattr(item, "addUnexpectedSuccess", None)
        if running is None or original is None:
            return

        def note(*arguments: Any, **keywords: Any) -> Any:
            running.xpassed, running.strict = _UNEXPECTED_SUCCESS, True
            return original(*arguments, **keywords)

        item.addUnexpectedSuccess = note

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_teardown(self, item: Any) -> None:
        item.__dict__.pop("addUnexpectedSuccess", None)
        self._enter("teardown")

    def _enter(self, phase: str) -> None:
        if self._running is not None:
            self._running.phase = phase

    # After pytest's own for unittest, which puts the exception there, and before the one that makes
    # the report. No wrapper: this is called three times a test.
    def pytest_runtest_makereport(self, item: Any, call: Any) -> None:
        self._last_error = call.excinfo.value if call.excinfo else None

    def pytest_runtest_logreport(self, report: Any) -> None:
        running, error = self._running, self._last_error
        self._last_error = None
        if running is None:
            return
        subtest = hasattr(report, "context")
        if not subtest:
            running.seconds += report.duration
        expected = getattr(report, "wasxfail", None)
        if report.passed and expected is None:
            return
        text = getattr(report, "longreprtext", "")  # pytest makes a terminal to write it to
        if report.skipped and expected is not None:
            running.xfailed = str(expected) or (message_of(error) if error else "")
        elif report.passed and expected is not None:
            running.xpassed = str(expected)
        elif report.skipped:
            reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else text
            if not subtest or running.skipped is None:
                running.skipped = _skip_reason(str(reason))
                running.skip_phase = report.when
        elif report.failed and error is None and text.startswith("[XPASS(strict)]"):
            running.xpassed, running.strict = text[len("[XPASS(strict)]") :].strip(), True
        elif report.failed and not (running.strict and report.when == "call"):
            running.failed = running.failed or report.when == "call"
            failure = _Failure(report.when, "", clip(text, MESSAGE_LIMIT), "")
            if error is not None:
                failure.type = type_name(type(error))
                failure.message = message_of(error)
                failure.traceback = traceback_of(error)
            if subtest:
                failure.message = f"{report._sub_test_description()} {failure.message}"
            running.failures.append(failure)

    def pytest_internalerror(self, excrepr: Any, excinfo: Any) -> None:
        self.internal_error = excinfo.value
        sys.stderr.write(str(excrepr) + "\n")


class _Phases:
    """A pytest plugin that tells the tracer where a test's own function begins and ends."""

    def __init__(self, tracer: Any) -> None:
        self._tracer = tracer

    @pytest.hookimpl(hookwrapper=True)
    def pytest_pyfunc_call(self, pyfuncitem: Any) -> Generator[None, Any, None]:
        # Not of unittest's tests, which say themselves where setUp ends.
        self._tracer.enter("forward")
        try:
            yield
        finally:
            self._tracer.leave()


def _tracer_of(trace: Trace | None) -> Any:
    if trace is None:
        return None
    from crosscheck_probe.trace import Tracer

    return Tracer(trace)


def _name(item: Any) -> str:
    return str(item.name)


def _place(item: Any) -> str:
    return str(item.nodeid).split("::", 1)[-1]


def _verdict(running: _Running) -> dict[str, Any]:
    first = running.failures[0] if running.failures else None
    outcome, phase, message = "passed", "call", ""
    if first is not None:
        broken = next((f for f in running.failures if f.phase != "call"), None)
        outcome = "error" if broken is not None and not running.failed else "failed"
        phase = first.phase
        message = "\n\n".join(f.message for f in running.failures)
    elif running.xpassed is not None:
        outcome, message = "xpassed", running.xpassed
    elif running.xfailed is not None:
        outcome, message = "xfailed", running.xfailed
    elif running.skipped is not None:
        outcome, message = "skipped", running.skipped
        phase = running.skip_phase
    verdict: dict[str, Any] = {"outcome": outcome, "phase": phase}
    if first is not None:
        verdict["type"] = first.type
    if message:
        verdict["message"] = clip(message, MESSAGE_LIMIT)
    if first is not None:
        traces = "\n".join(f.traceback for f in running.failures if f.traceback)
        verdict["traceback"] = clip(traces, TRACEBACK_LIMIT)
    if running.strict and outcome == "xpassed":
        verdict["strict"] = True
    verdict["seconds"] = round(running.seconds, 6)
    return verdict


def _skip_reason(text: str) -> str:
    for prefix in ("Skipped: ", "unittest.case.SkipTest: "):
        if text.startswith(prefix):
            return text[len(prefix) :]
    return text
