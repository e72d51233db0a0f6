"""Runs test suites, two at a time, and sums them up: the engine of scripts/test and scripts/deep.

Every suite is a command that writes a JUnit file. One that writes none, a broken one, or that exits
otherwise than its file says, counts as one failure more: a suite that dies must never look like one
that passed.
"""

import argparse
import concurrent.futures
import dataclasses
import os
import pathlib
import subprocess
import sys
import threading
import time
import xml.etree.ElementTree as ElementTree

ROOT = pathlib.Path(__file__).resolve().parent.parent


@dataclasses.dataclass
class Suite:
    name: str
    command: list[str]  # "{junit}" becomes the path of the JUnit file to write
    timeout: float = 900
    environment: dict[str, str] = dataclasses.field(default_factory=dict)
    # Without a JUnit file of its own: the command is one test, passed if it exits 0.
    plain: bool = False


@dataclasses.dataclass
class Sum:
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    failures: list[tuple[str, str]] = dataclasses.field(default_factory=list)

    def add(self, other: "Sum") -> None:
        self.passed += other.passed
        self.failed += other.failed
        self.skipped += other.skipped
        self.failures += other.failures

    def closing_line(self) -> str:
        line = f"{self.passed} passed, {self.failed} failed"
        return f"{line}, {self.skipped} skipped" if self.skipped else line


def read_junit(text: str) -> Sum:
    """Sums the test cases themselves; the totals in a file's header are not believed."""
    result = Sum()
    for case in ElementTree.fromstring(text).iter("testcase"):
        problems = [child for child in case if child.tag in ("failure", "error")]
        if problems:
            result.failed += 1
            name = "::".join(part for part in (case.get("classname"), case.get("name")) if part)
            details = "\n".join(
                filter(None, (problem.get("message") or "" for problem in problems))
            )
            body = "\n".join(filter(None, (problem.text or "" for problem in problems)))
            result.failures.append(
                (name, body if details.strip() in body else f"{details}\n{body}")
            )
        elif case.find("skipped") is not None or case.get("status") == "notrun":
            result.skipped += 1
        else:
            result.passed += 1
    return result


def conclude(suite: Suite, exit_code: int | None, junit: str | None, output: str) -> Sum:
    """What a suite counts for. `exit_code`: None: did not end; negative: a signal."""
    tail = "\n".join(output.splitlines()[-60:])
    if exit_code is None:
        how = f"did not end within {suite.timeout:.0f} s"
    else:
        how = f"died of signal {-exit_code}" if exit_code < 0 else f"exited {exit_code}"
    if suite.plain:
        if exit_code == 0:
            return Sum(passed=1)
        return Sum(failed=1, failures=[(suite.name, f"{how}\n{tail}")])
    result = Sum()
    if junit is not None:
        try:
            result = read_junit(junit)
        except ElementTree.ParseError as error:
            how += f", and its report cannot be read ({error})"
            junit = None
    if junit is None:
        how += " without a report" if "report" not in how else ""
        result = Sum(failed=1, failures=[(suite.name, f"{how}\n{tail}")])
    elif exit_code != 0 and result.failed == 0:
        result.failed += 1
        result.failures.append((suite.name, f"{how}, though its report names no failure\n{tail}"))
    elif exit_code == 0 and result.passed + result.failed + result.skipped == 0:
        result.failed += 1
        result.failures.append((suite.name, "ran no test"))
    return result


def run_suite(suite: Suite, folder: pathlib.Path) -> tuple[Sum, float]:
    file_name = suite.name.replace("/", "-").replace(":", "-")
    junit = folder / f"{file_name}.xml"
    junit.unlink(missing_ok=True)
    log = folder / f"{file_name}.log"
    command = [part.replace("{junit}", str(junit)) for part in suite.command]
    started = time.monotonic()
    with open(log, "wb") as out:
        try:
            process = subprocess.Popen(
                command,
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                env={**os.environ, **suite.environment},
                start_new_session=True,
            )
        except OSError as error:
            return Sum(failed=1, failures=[(suite.name, f"cannot be started: {error}")]), 0.0
        try:
            exit_code = process.wait(suite.timeout)
        except subprocess.TimeoutExpired:
            exit_code = None
        finally:
            try:  # also what the suite left running
                os.killpg(process.pid, 9)
            except ProcessLookupError:
                pass
            process.wait()
    text = junit.read_text("utf-8", "replace") if junit.exists() else None
    result = conclude(suite, exit_code, text, log.read_text("utf-8", "replace"))
    return result, time.monotonic() - started


def run_all(suites: list[Suite], folder: pathlib.Path, jobs: int) -> Sum:
    folder.mkdir(parents=True, exist_ok=True)
    total = Sum()
    lock = threading.Lock()
    width = max((len(suite.name) for suite in suites), default=0)

    def one(suite: Suite) -> None:
        result, seconds = run_suite(suite, folder)
        with lock:
            total.add(result)
            print(
                f"{'FAILED' if result.failed else 'ok':<6} {suite.name:<{width}}  "
                f"{result.closing_line()} ({seconds:.1f} s)",
                flush=True,
            )

    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        for future in [pool.submit(one, suite) for suite in suites]:
            future.result()
    for name, detail in total.failures:
        print(f"\n--- {name}")
        print("\n".join(f"    {line}" for line in detail.strip().splitlines()[:80]))
    return total


def node_suites(folder: str, names: str = "*.test.mjs") -> list[Suite]:
    return [
        Suite(
            f"node:{path.relative_to(ROOT / 'tests')}",
            [
                "node",
                "--test",
                "--test-reporter=./tests/junit-reporter.mjs",
                "--test-reporter-destination={junit}",
                str(path.relative_to(ROOT)),
            ],
            timeout=1500,
        )
        for path in sorted((ROOT / "tests" / folder).glob(names))
    ]


def cpp_suites(build: str, prefix: str = "cpp") -> list[Suite]:
    return [
        Suite(
            f"{prefix}:{path.stem.removesuffix('_test')}", [str(path), "--gtest_output=xml:{junit}"]
        )
        for path in sorted((ROOT / "build" / build / "test").glob("*_test"))
        if path.suffix == ""
    ]


def pytest_suite(name: str, path: str) -> Suite:
    return Suite(
        name,
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            path,
            "--junitxml={junit}",
            "-o",
            "junit_family=xunit2",
        ],
    )


def all_suites(build: str) -> list[Suite]:
    # The longest first: the last to end then decides least.
    return [
        *node_suites("e2e"),
        *node_suites("contract"),
        pytest_suite("probe", "probe/tests"),
        pytest_suite("scripts", "tests/scripts"),
        *cpp_suites(build),
        Suite("lint", ["scripts/lint", "--junit", "{junit}", "--without", "format"]),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description="Build, then run the suites of crosscheck")
    parser.add_argument("--build", default="release", help="the preset whose binaries are tested")
    parser.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="TEXT",
        help="only suites whose name contains TEXT; may be given again",
    )
    parser.add_argument("--list", action="store_true", help="print the suites' names, run nothing")
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parser.parse_args()

    def wanted(suite: Suite) -> bool:
        return not arguments.only or any(text in suite.name for text in arguments.only)

    if arguments.list:
        for suite in filter(wanted, all_suites(arguments.build)):
            print(suite.name)
        return 0
    started = time.monotonic()
    folder = ROOT / "build" / "reports"
    build = Suite("build", ["scripts/build", arguments.build], timeout=3600, plain=True)
    total = run_all([build], folder, 1)
    if total.failed == 0:
        suites = list(filter(wanted, all_suites(arguments.build)))
        if not suites:
            print(f"no suite is called {' or '.join(arguments.only)}", file=sys.stderr)
            return 2
        total = run_all(suites, folder, arguments.jobs)
    print(f"\nreports: {folder.relative_to(ROOT)}   time: {time.monotonic() - started:.0f} s")
    print(total.closing_line(), flush=True)
    return 1 if total.failed else 0


if __name__ == "__main__":
    sys.exit(main())
