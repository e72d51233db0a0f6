"""What the gate says of slowdowns whose size is known: real launches, a candidate that does more.

0 %: the same on both sides, on three cells: no FAIL is right, and UNFIT or INCONCLUSIVE too often
is no use. 3 % at a margin of 5 % must never FAIL; 10 and 30 % must. Wants an idle machine: two to
three minutes a repetition of a case.
"""

import argparse
import collections
import json
import math
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
OWN = "python:slow_workload:products"
LIBRARY = ("fallback.mlp", "attention.sdpa_causal")

MANIFEST = """format: 1
name: slowdowns
baseline: {{label: as it is, python: {folder}/baseline}}
candidate: {{label: slower, python: {folder}/candidate}}
backends: [cpu]
classes: {{interactive: {{latency: 5 %, latency_p95: 1000 %}}}}
workloads:
  - name: case
    workload: {workload}
    class: interactive
    phases: [inference]
    gates: [correctness, latency, peak_memory, rollback]
    gate_on_cpu_time: {cpu_time}
    frozen: {{code: the evaluation's, data: its own}}
caveats: [of timings alone]
"""


def interpreter(path: pathlib.Path, python: str, slower: float) -> None:
    path.write_text(
        "#!/bin/sh\n"
        f"export CROSSCHECK_EVALUATE_SLOWER={slower} PYTHONPATH={ROOT / 'evaluate'}:$PYTHONPATH\n"
        f'exec {python} "$@"\n'
    )
    path.chmod(0o755)


def latency_of(arguments: argparse.Namespace, workload: str, slower: float) -> str:
    """Returns the status of the latency gate."""
    with tempfile.TemporaryDirectory(prefix="crosscheck-slowdowns.") as name:
        folder = pathlib.Path(name)
        interpreter(folder / "baseline", arguments.python, 1)
        interpreter(folder / "candidate", arguments.python, slower)
        cpu_time = "true" if arguments.cpu_time else "false"
        text = MANIFEST.format(folder=folder, workload=workload, cpu_time=cpu_time)
        (folder / "gate.yaml").write_text(text)
        command = [arguments.program, "gate", "run", "--json"]
        if arguments.accept_load:
            command.append("--accept-load")
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, check=False
        )
        if done.returncode not in (0, 1):
            sys.exit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
        gates = json.loads(done.stdout)["cells"][0]["gates"]
        return next(gate["status"] for gate in gates if gate["gate"] == "latency")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", default=str(ROOT / "build/release/bin/crosscheck"))
    parser.add_argument("--python", default=str(ROOT / ".venv/bin/python"))
    parser.add_argument("--repetitions", type=int, default=20)
    parser.add_argument(
        "--slowdowns", type=int, nargs="+", default=[0, 3, 10, 30], help="in percent"
    )
    parser.add_argument(
        "--cpu-time", action="store_true", help="gate on CPU time, not on wall time"
    )
    parser.add_argument("--accept-load", action="store_true")
    parser.add_argument("--out", help="Where the figures go, as JSON")
    parser.add_argument(
        "--check", action="store_true", help="Exit with 1 when one is missed"
    )
    arguments = parser.parse_args()
    cases = [(percent, OWN) for percent in arguments.slowdowns]
    if 0 in arguments.slowdowns:
        cases += [(0, workload) for workload in LIBRARY]
    figures = []
    for percent, workload in cases:
        counts: collections.Counter[str] = collections.Counter()
        for _ in range(arguments.repetitions):
            counts[latency_of(arguments, workload, 1 + percent / 100)] += 1
        figure = {
            "slower_percent": percent,
            "workload": workload,
            "holds": holds(percent, counts),
        }
        figures.append({**figure, "counts": dict(counts)})
        told = ", ".join(f"{status} {n}" for status, n in counts.most_common())
        missed = "" if figure["holds"] else "  MISSED"
        print(f"{percent:>3} % slower, {workload:<28} {told}{missed}", flush=True)
    if arguments.out:
        document = {
            "margin_percent": 5,
            "cpu_time": arguments.cpu_time,
            "figures": figures,
        }
        pathlib.Path(arguments.out).write_text(json.dumps(document, indent=2) + "\n")
    return (
        1 if arguments.check and not all(figure["holds"] for figure in figures) else 0
    )


def holds(percent: int, counts: collections.Counter[str]) -> bool:
    if percent >= 10:
        return set(counts) == {"FAIL"}
    if percent == 0:
        return counts["FAIL"] == 0 and counts["PASS"] >= math.ceil(0.8 * counts.total())
    return counts["FAIL"] == 0


if __name__ == "__main__":
    sys.exit(main())
