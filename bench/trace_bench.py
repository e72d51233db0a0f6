"""What tracing costs: processor time and outcomes of the same tests, traced and not.

Side by side and in turns, so that a busy machine burdens all. scripts/bench runs this, with the
bundled suite on torch 2.13.0; with --suite and --python it measures another tree and torch.
"""

import argparse
import collections.abc
import json
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile

from runner_bench import save

ROOT = pathlib.Path(__file__).resolve().parent.parent
OBSERVERS = ("record-function", "dispatch-mode")


def outcomes(path: pathlib.Path) -> dict[str, str]:
    """By node id, of a trace or of results."""
    found = {}
    for line in path.read_text().splitlines():
        record = json.loads(line)
        if "node" in record:
            found[record["node"]] = record["outcome"]
    return found


def cpu_of(command: list[str], folder: pathlib.Path) -> float:
    """Seconds of processor time of the program and all its processes."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "CI": "true", "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode not in (0, 1):
        sys.exit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", default=str(ROOT / "build/release/bin/crosscheck"))
    parser.add_argument("--python", default=str(ROOT / ".venv/bin/python"))
    parser.add_argument("--suite", default="bundled")
    # Many enough that the figure stands out of the noise of starting torch.
    files = ["test_gradients.py", "test_forward_float.py", "test_op_forms.py"]
    parser.add_argument("--files", nargs="+", default=files)
    parser.add_argument("--select", default="/./")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", help="Where the figures go, as JSON")
    parser.add_argument(
        "--check", action="store_true", help="Exit with 1 when one is missed"
    )
    arguments = parser.parse_args()
    figures: list[dict[str, object]] = []

    def add(name: str, unit: str, ours: float, limit: float | None = None) -> None:
        figure: dict[str, object] = {"name": name, "unit": unit, "ours": round(ours, 4)}
        wanted = ""
        if limit is not None:
            figure["at_most"] = limit
            figure["holds"] = ours <= limit
            wanted = f"≤ {limit:.3g}{'' if figure['holds'] else '  MISSED'}"
        figures.append(figure)
        print(f"{name:<60} {ours:>10.3g} {unit:<6} {wanted}", flush=True)

    with tempfile.TemporaryDirectory(dir=ROOT / "build", prefix="bench-trace.") as name:
        folder = pathlib.Path(name)
        # Collected once: what is compared is the tests' own work.
        inventory = folder / "inventory.jsonl"
        where = ["--python", arguments.python]
        cpu_of(
            [arguments.program, "collect", *where, "--suite", arguments.suite]
            + ["--files", *arguments.files, "-o", str(inventory)],
            folder,
        )
        where += ["--inventory", str(inventory), "-j", "1"]
        every = [*where, "--select", arguments.select]
        # Builds the observer, which counts for nothing.
        _, found = measure(arguments.program, every, folder, "record-function")
        # What a command costs before its tests, by one test of them.
        one = [*where, "--select", min(found)]
        alone: dict[str, list[float]] = {kind: [] for kind in ("none", *OBSERVERS)}
        runs: dict[str, list[float]] = {kind: [] for kind in alone}
        seen: dict[str, dict[str, str]] = {}
        for turn in range(arguments.rounds):
            for kind, times in runs.items():
                if kind == "dispatch-mode" and turn > 0:
                    continue  # reported, and held to no figure
                alone[kind].append(measure(arguments.program, one, folder, kind)[0])
                seconds, seen[kind] = measure(arguments.program, every, folder, kind)
                times.append(seconds)
        # A difference of two medians: one of single runs would carry the noise of both.
        tests = {
            kind: statistics.median(times) - statistics.median(alone[kind])
            for kind, times in runs.items()
        }
        report(add, tests, seen)

    if arguments.out:
        save(pathlib.Path(arguments.out), figures)
    held = all(figure.get("holds", True) for figure in figures)
    return 1 if arguments.check and not held else 0


def measure(
    program: str, where: list[str], folder: pathlib.Path, kind: str
) -> tuple[float, dict[str, str]]:
    output = folder / f"{kind}.jsonl"
    if kind == "none":
        command = [program, "run", *where, "--no-store", "--results", str(output)]
    else:
        command = [program, "trace", *where, "--observer", kind, "-o", str(output)]
    return cpu_of(command, folder), outcomes(output)


def report(
    add: collections.abc.Callable[..., None],
    seconds: dict[str, float],
    seen: dict[str, dict[str, str]],
) -> None:
    add("traced tests, of each", "", len(seen["none"]))
    add("processor time of the tests untraced, median", "s", seconds["none"])
    for kind in OBSERVERS:
        over = seconds[kind] / seconds["none"] - 1
        flips = sum(seen[kind].get(node) != was for node, was in seen["none"].items())
        own = kind == "record-function"
        add(
            f"{kind}: processor time over untraced", "%", over * 100, 6 if own else None
        )
        add(f"{kind}: outcomes that it changes", "", flips, 0 if own else None)


if __name__ == "__main__":
    sys.exit(main())
