"""Does the operator index find the tests that break? Mutants on the reference device.

One operator at a time computes wrong values, raises or crashes. All tests are run on each such
device; those that passed before and now fail are what a choice of tests must have chosen. The
index is asked as a person would ask it, and compared with choices by name.
"""

import argparse
import collections
import dataclasses
import json
import math
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Upper bounds of the fraction of tests that use an operator, and how many tenths of the operators
# come from there.
STRATA = ((0.01, 4), (0.05, 3), (0.25, 2), (1.0, 1))
FAULTS = ("wrong_value", "raise", "crash")
CRASH_LIMIT = 0.05  # a crash costs a process: not of operators that more tests use
SELECTORS = ("index", "name match", "OpInfo name", "BM25")


@dataclasses.dataclass
class Mutant:
    operator: str
    fault: str
    used_by: int
    broken: set[str]
    selected: dict[str, set[str]]


def wilson(hits: int, of: int) -> tuple[float, float]:
    """The 95 % interval of a share."""
    if of == 0:
        return 0.0, 1.0
    z, share = 1.96, hits / of
    middle = share + z * z / (2 * of)
    spread = z * math.sqrt(share * (1 - share) / of + z * z / (4 * of * of))
    return (middle - spread) / (1 + z * z / of), (middle + spread) / (1 + z * z / of)


def stratified(
    users: dict[str, set[str]], total: int, count: int, seed: int
) -> list[str]:
    """Operators of all frequencies; what a stratum lacks the others give."""
    chooser = random.Random(seed)
    strata: list[list[str]] = [[] for _ in STRATA]
    for name in sorted(users):
        share = len(users[name]) / total
        strata[next(i for i, (limit, _) in enumerate(STRATA) if share <= limit)].append(
            name
        )
    chosen: list[str] = []
    rest: list[str] = []
    for names, (_, tenths) in zip(strata, STRATA):
        chooser.shuffle(names)
        wanted = round(count * tenths / 10)
        chosen += names[:wanted]
        rest += names[wanted:]
    chooser.shuffle(rest)
    chosen = (chosen + rest)[:count]
    # So that a run that is ended early has seen all of them.
    chooser.shuffle(chosen)
    return chosen


def simple_name(operator: str) -> str:
    """aten::add_.Tensor: add."""
    return operator.split("::")[-1].split(".")[0].strip("_")


class Evaluation:
    def __init__(self, arguments: argparse.Namespace, folder: pathlib.Path) -> None:
        self._arguments = arguments
        self._folder = folder
        self._database = ["--db", str(folder / "evaluate.db")]
        self._by_definition: dict[tuple[str, str], list[str]] = collections.defaultdict(
            list
        )

    def crosscheck(self, *command: str, faults: dict[str, str] | None = None) -> str:
        configuration = self._folder / "refdev.json"
        configuration.write_text(
            json.dumps({"operators": "all", "faults": faults or {}})
        )
        done = subprocess.run(
            [self._arguments.program, *command, *self._database],
            env={**os.environ, "CI": "true", "REFDEV_CONFIG": str(configuration)},
            cwd=self._folder,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode not in (0, 1):
            sys.exit(f"crosscheck {' '.join(command)}\n{done.stdout}{done.stderr}")
        return done.stdout

    def tests(self) -> list[str]:
        """Options that choose the tests, collected once."""
        inventory = self._folder / "inventory.jsonl"
        where = ["--python", self._arguments.python, "--device", "refdev"]
        if not inventory.exists():
            files = ["--files", self._arguments.files]
            self.crosscheck("collect", *where, *files, "-o", str(inventory))
        chosen = ["--inventory", str(inventory), "--select", self._arguments.select]
        return [*where, *chosen, "-j", str(self._arguments.jobs), "--timeout", "60"]

    def outcomes(self, faults: dict[str, str] | None = None) -> dict[str, str]:
        file = self._folder / "results.jsonl"
        options = ["--no-store", "--results", str(file)]
        self.crosscheck("run", *self.tests(), *options, faults=faults)
        return {r["node"]: r["outcome"] for r in records(file)}

    def trace(self) -> dict[str, dict]:
        file = self._folder / "trace.jsonl"
        self.crosscheck("trace", *self.tests(), "-o", str(file))
        self.crosscheck("ops", "ingest", str(file))
        return {r["node"]: r for r in records(file)}

    def executable(self) -> set[str]:
        """What a fault can be put into."""
        program = (
            "from refdev._operators import executable; print('\\n'.join(executable()))"
        )
        path = str(ROOT / "build/refdev")
        done = subprocess.run(
            [self._arguments.python, "-c", f"import refdev; {program}"],
            env={**os.environ, "PYTHONPATH": path},
            capture_output=True,
            text=True,
            check=True,
        )
        return set(done.stdout.split())

    def searched(
        self, operator: str, traced: dict[str, dict], budget: int
    ) -> set[str]:
        """Tests of the definitions that a search by words ranks first, as many as `budget`."""
        suite = ROOT / "probe/src/crosscheck_probe/suite"
        memory = ["--memory", str(self._folder / "memory.db")]
        if not self._by_definition:
            self.crosscheck("index", str(suite), *memory)
            for node, test in traced.items():
                definition = (test["file"], f"{test['class']}::{test['method']}")
                self._by_definition[definition].append(node)
        words = [simple_name(operator), "--by", "words", "--limit", "1000"]
        answer = json.loads(self.crosscheck("search", *words, *memory, "--json"))
        found: list[str] = []
        for hit in answer["hits"]:
            found += self._by_definition[(hit["file"], hit["name"])]
        return set(found[:budget])

    def indexed(self, operator: str) -> set[str]:
        answer = json.loads(self.crosscheck("ops", "tests", operator, "--json"))
        return {test["node"] for test in answer["tests"]}


def records(file: pathlib.Path) -> list[dict]:
    lines = (json.loads(line) for line in file.read_text().splitlines())
    return [record for record in lines if "node" in record]


def select(
    operator: str, traced: dict[str, dict], indexed: set[str]
) -> dict[str, set[str]]:
    name = simple_name(operator)
    unknown = {node for node, test in traced.items() if "operators" not in test}
    by_info = {
        node
        for node, test in traced.items()
        if name in str(test["variant"].get("op", "")).replace(".", "_").split()
    }
    return {
        "index": indexed | unknown,
        "name match": {node for node in traced if name in node.lower()},
        "OpInfo name": by_info,
    }


def evaluate(evaluation: Evaluation, count: int, seed: int) -> tuple[list[Mutant], int]:
    traced = evaluation.trace()
    untraced = evaluation.outcomes()
    # What passes twice, traced and not.
    passing = {
        node
        for node, outcome in untraced.items()
        if outcome == "passed" and traced.get(node, {}).get("outcome") == "passed"
    }
    users: dict[str, set[str]] = collections.defaultdict(set)
    for node in passing:
        for operators in traced[node]["operators"].values():
            for name in operators:
                users[name].add(node)
    able = evaluation.executable()
    users = {name: tests for name, tests in users.items() if name in able}
    mutants = []
    for number, operator in enumerate(stratified(users, len(passing), count, seed)):
        fault = FAULTS[number % len(FAULTS)]
        if fault == "crash" and len(users[operator]) > CRASH_LIMIT * len(passing):
            fault = FAULTS[number % 2]
        now = evaluation.outcomes({operator: fault})
        broken = {
            node
            for node in passing
            if now.get(node) in ("failed", "crashed", "timed_out")
        }
        selected = {
            how: tests & passing
            for how, tests in select(
                operator, traced, evaluation.indexed(operator)
            ).items()
        }
        selected["BM25"] = passing & evaluation.searched(
            operator, traced, len(selected["index"])
        )
        mutants.append(Mutant(operator, fault, len(users[operator]), broken, selected))
        missed = len(broken - selected["index"])
        print(
            f"{operator:<44} {fault:<12} used by {len(users[operator]):>5}  broke {len(broken):>5}"
            f"  chosen {len(selected['index']):>5}  missed {missed}",
            flush=True,
        )
    return mutants, len(passing)


def summary(mutants: list[Mutant], passing: int) -> dict[str, dict[str, float | int]]:
    result: dict[str, dict[str, float | int]] = {}
    for how in SELECTORS:
        broken = sum(len(m.broken) for m in mutants)
        found = sum(len(m.broken & m.selected[how]) for m in mutants)
        low, high = wilson(found, broken)
        share = sum(len(m.selected[how]) for m in mutants) / (len(mutants) * passing)
        result[how] = {
            "found": found,
            "broken": broken,
            "recall": round(found / broken, 4) if broken else 1.0,
            "recall_low": round(low, 4),
            "recall_high": round(high, 4),
            "selected": round(share, 4),
        }
    return result


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", default=str(ROOT / "build/release/bin/crosscheck"))
    parser.add_argument("--python", default=str(ROOT / ".venv/bin/python"))
    parser.add_argument("--files", default="test_forward_float.py,test_gradients.py")
    parser.add_argument("--select", default="/float32/")
    parser.add_argument("--operators", type=int, default=30)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", help="Where the figures go, as JSON")
    arguments = parser.parse_args()
    began = time.monotonic()
    with tempfile.TemporaryDirectory(dir=ROOT / "build", prefix="evaluate.") as name:
        evaluation = Evaluation(arguments, pathlib.Path(name))
        mutants, passing = evaluate(evaluation, arguments.operators, arguments.seed)
    found = summary(mutants, passing)
    noticed = sum(bool(m.broken) for m in mutants)
    print(
        f"\n{len(mutants)} mutants, {noticed} of them noticed by one of {passing} passing tests"
    )
    print(f"{'':<14}{'recall':>8}  {'95 % interval':<18}{'found':>14}{'selected':>10}")
    for how, row in found.items():
        interval = f"{row['recall_low']:.4f} … {row['recall_high']:.4f}"
        of = f"{row['found']}/{row['broken']}"
        print(
            f"{how:<14}{row['recall']:>8.4f}  {interval:<18}{of:>14}{row['selected']:>10.4f}"
        )
    if arguments.out:
        document = {
            "format": "crosscheck-evaluation",
            "schema": 1,
            "tests": passing,
            "mutants": [
                {
                    "operator": m.operator,
                    "fault": m.fault,
                    "used_by": m.used_by,
                    "broke": len(m.broken),
                    "missed_by_index": sorted(m.broken - m.selected["index"]),
                }
                for m in mutants
            ],
            "selectors": found,
            "seconds": round(time.monotonic() - began),
        }
        pathlib.Path(arguments.out).write_text(json.dumps(document, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
