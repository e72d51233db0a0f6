"""The runner's figures: `crosscheck run` against plain pytest, on the same quick tests.

Real PyTorch; side by side and in turns, so that a busy machine burdens both. Every test file notes
when its first test begins and its last one has ended: between them is the test phase, without
import and collection. scripts/bench runs this.
"""

import argparse
import collections.abc
import datetime
import json
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
FILES = 5
METHODS = 125
DTYPES = ["float32", "float64", "int64", "int32", "int16", "int8", "uint8", "bool"]

FILE = """
import os
import signal
import time

import torch
from torch.testing._internal.common_device_type import dtypes, instantiate_device_type_tests
from torch.testing._internal.common_utils import TestCase, run_tests


def _note(what):
    fd = os.open(os.environ["BENCH_TIMES"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(fd, f"{what} {os.getpid()} {time.monotonic()}\\n".encode())
    os.close(fd)


def setUpModule():
    _note("begin")


def tearDownModule():
    _note("end")


def _check(test, device, dtype, n):
    value = torch.arange(n, device=device).to(dtype)
    test.assertEqual((value == value).sum().item(), n)
    test.assertEqual(value.reshape(1, n)[0], value)


class TestQuick(TestCase):
"""

METHOD = """
    @dtypes(*(getattr(torch, name) for name in {dtypes}))
    def test_quick_{n}(self, device, dtype):
        {crash}_check(self, device, dtype, {n})
"""

CRASH = (
    'if os.environ.get("BENCH_CRASH") and dtype == torch.float32:\n'
    '            _note("crash")\n'
    "            os.kill(os.getpid(), signal.SIGKILL)\n"
    '        _note("next") if os.environ.get("BENCH_CRASH") else None\n'
    "        "
)


def write_suite(folder: pathlib.Path) -> list[str]:
    names = []
    for number in range(FILES):
        text = FILE
        for n in range(METHODS):
            # One test in the middle of the first file dies when asked to.
            crash = CRASH if number == 0 and n == METHODS // 2 else ""
            text += METHOD.format(dtypes=DTYPES, n=n, crash=crash)
        text += "\n\ninstantiate_device_type_tests(TestQuick, globals())\n"
        names.append(f"test_quick_{number}.py")
        (folder / names[-1]).write_text(text)
    return names


class Measured:
    """One run: seconds of the whole, of its test phase, of CPU; the largest process's memory."""

    def __init__(
        self, command: list[str], folder: pathlib.Path, **environment: str
    ) -> None:
        times = folder / "times"
        times.unlink(missing_ok=True)
        env = {
            **os.environ,
            "BENCH_TIMES": str(times),
            "PYTORCH_TESTING_DEVICE_ONLY_FOR": "cpu",
            "PYTHONDONTWRITEBYTECODE": "1",
            "CI": "true",
            **environment,
        }
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        began = time.monotonic()
        done = subprocess.run(
            command,
            cwd=folder,
            env=env,
            capture_output=True,
            text=True,
            timeout=900,
            check=False,
        )
        self.overall = time.monotonic() - began
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        self.cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        if done.returncode != int(bool(environment)):
            sys.exit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
        self.output = done.stdout + done.stderr
        self.marks = [
            (what, int(pid), float(at))
            for what, pid, at in (
                line.split() for line in times.read_text().splitlines()
            )
        ]
        self.phase = self._phase()

    def _phase(self) -> float:
        """Seconds in which at least one process was between a file's first test and its last."""
        changes = sorted(
            (at, 1 if what == "begin" else -1)
            for what, _, at in self.marks
            if what in ("begin", "end")
        )
        seconds, inside, since = 0.0, 0, 0.0
        for at, change in changes:
            if inside == 0:
                since = at
            inside += change
            if inside == 0:
                seconds += at - since
        return seconds

    def recovery(self) -> float:
        """Seconds from the death in a test to the begin of the next one in its file."""
        died = next(at for what, _, at in self.marks if what == "crash")
        return (
            min(at for what, _, at in self.marks if what == "begin" and at > died)
            - died
        )


def median(
    runs: list[Measured], what: collections.abc.Callable[[Measured], float]
) -> float:
    return statistics.median(what(run) for run in runs)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", default=str(ROOT / "build/release/bin/crosscheck"))
    parser.add_argument("--python", default=str(ROOT / ".venv/bin/python"))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", help="Where the figures go, as JSON")
    parser.add_argument(
        "--check", action="store_true", help="Exit with 1 when one is missed"
    )
    arguments = parser.parse_args()
    figures: list[dict[str, object]] = []

    def add(
        name: str, unit: str, ours: float, limit: float | None, *, least: bool = False
    ) -> None:
        figure: dict[str, object] = {"name": name, "unit": unit, "ours": round(ours, 4)}
        wanted = ""
        if limit is not None:
            figure["at_least" if least else "at_most"] = limit
            figure["holds"] = ours >= limit if least else ours <= limit
            wanted = f"{'≥' if least else '≤'} {limit:.3g}{'' if figure['holds'] else '  MISSED'}"
        figures.append(figure)
        print(f"{name:<60} {ours:>10.3g} {unit:<6} {wanted}", flush=True)

    with tempfile.TemporaryDirectory(
        dir=ROOT / "build", prefix="bench-runner."
    ) as name:
        folder = pathlib.Path(name)
        files = write_suite(folder)
        plain = [
            arguments.python,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            *files,
        ]
        ours = [
            arguments.program,
            "run",
            "--suite",
            str(folder),
            "--device",
            "cpu",
            "--python",
        ]
        ours += [
            arguments.python,
            "--db",
            str(folder / "runs.db"),
            "--files",
            *files,
            "-j",
        ]
        runs: dict[str, list[Measured]] = {"plain": [], "1": [], "2": []}
        for _ in range(arguments.rounds):
            runs["plain"].append(Measured(plain, folder))
            for jobs in ("1", "2"):
                runs[jobs].append(Measured([*ours, jobs], folder))
        tests = FILES * METHODS * len(DTYPES)
        add("quick tests, of each", "", tests, None)
        for kind, title in (
            ("plain", "plain pytest"),
            ("1", "crosscheck -j1"),
            ("2", "-j2"),
        ):
            add(
                f"{title}: test phase, median",
                "s",
                median(runs[kind], lambda m: m.phase),
                None,
            )
            add(
                f"{title}: overall, median",
                "s",
                median(runs[kind], lambda m: m.overall),
                None,
            )
            add(f"{title}: CPU, median", "s", median(runs[kind], lambda m: m.cpu), None)
        phase = median(runs["plain"], lambda m: m.phase)
        overall = median(runs["plain"], lambda m: m.overall)
        over = (median(runs["1"], lambda m: m.phase) / phase - 1) * 100
        add("overhead in the test phase over plain pytest, -j1", "%", over, 3)
        faster = phase / median(runs["2"], lambda m: m.phase)
        add(
            "speed in the test phase over plain pytest's, -j2",
            "×",
            faster,
            1.7,
            least=True,
        )
        faster = overall / median(runs["2"], lambda m: m.overall)
        add("speed overall over plain pytest's, -j2", "×", faster, 1.5, least=True)
        imports = []
        for _ in range(3):
            began = time.monotonic()
            subprocess.run(
                [
                    arguments.python,
                    "-c",
                    "import torch.testing._internal.common_device_type",
                ],
                check=True,
            )
            imports.append(time.monotonic() - began)
        recovery = statistics.median(
            Measured([*ours, "1"], folder, BENCH_CRASH="1").recovery() for _ in range(3)
        )
        add(
            "import of torch and its test machinery",
            "s",
            statistics.median(imports),
            None,
        )
        add(
            "recovery from a crash, above the import",
            "s",
            recovery - statistics.median(imports),
            1,
        )

    if arguments.out:
        save(pathlib.Path(arguments.out), figures)
    held = all(figure.get("holds", True) for figure in figures)
    return 1 if arguments.check and not held else 0


def save(path: pathlib.Path, figures: list[dict[str, object]]) -> None:
    """Into the file; figures of other programs that are there stay."""
    document = json.loads(path.read_text()) if path.exists() else {}
    document["format"] = "crosscheck-bench"
    document["schema"] = 1
    document["date"] = datetime.datetime.now(datetime.UTC).strftime(
        "%Y-%m-%dT%H:%M:%SZ"
    )
    document["cores"] = os.cpu_count()
    named = {figure["name"]: figure for figure in document.get("figures", [])}
    named.update((figure["name"], figure) for figure in figures)
    document["figures"] = list(named.values())
    path.write_text(json.dumps(document, indent=2) + "\n")


if __name__ == "__main__":
    sys.exit(main())
