"""Does `crosscheck search` find a test by what its author says about it?

Of tests with a docstring or a leading comment some are drawn; in a copy of the tree that text is
taken out of each, and its first sentence asked for: the test is the one right answer. So nobody has
to judge, and what is measured is hard: the author's words need not occur in the test.
"""

import argparse
import json
import math
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
LIMIT = 100


def call(program: pathlib.Path, *arguments: object) -> str:
    done = subprocess.run(
        [program, *map(str, arguments)],
        capture_output=True,
        text=True,
    )
    if done.returncode not in (0, 1):
        sys.exit(f"crosscheck {arguments[0]}: {done.stderr}")
    return done.stdout


def described(program: pathlib.Path, tree: pathlib.Path, memory: pathlib.Path) -> list:
    """Tests with four words or more on them: (file, class, name, first line, last line, text)."""
    exported = memory.with_suffix(".jsonl")
    call(program, "index", tree, "--memory", memory, "--export", exported)
    tests, path = [], None
    for line in exported.read_text("utf-8").splitlines():
        entry = json.loads(line)
        path = entry.get("source", path)
        if entry.get("kind") != "test":
            continue
        text = re.split(r"(?<=[.!?]) ", entry["doc"] or entry["comment"])[0]
        if len(set(re.findall(r"[A-Za-z]{2,}", text))) >= 4:
            place = path, entry["class"], entry["definition"]
            tests.append((*place, entry["line"], entry["last_line"], text))
    return tests


def take_out(tree: pathlib.Path, tests: list) -> list:
    """Removes docstring and leading comment of each, keeping lines where they are; returns those
    of which nothing is left."""
    done = []
    for file, cls, name, line, last, text in tests:
        path = tree / file
        lines = path.read_text("utf-8", "replace").split("\n")
        body = "\n".join(lines[line - 1 : last])
        header = re.match(r"\s*(async\s+)?def [^\n]*?:[ \t]*(#[^\n]*)?\n", body)
        if header is None:
            continue
        rest = body[header.end() :]
        told = re.match(
            r'(?:[ \t]*#[^\n]*\n|[ \t]*\n)*(?:[ \t]*[rRuU]?("""|\'\'\'|"|\').*?\1[ \t]*\n)?'
            r"(?:[ \t]*#[^\n]*\n|[ \t]*\n)*",
            rest,
            re.DOTALL,
        )
        if not told.group().strip():
            continue
        indent = re.match(r"\s*", body).group().split("\n")[-1] + "    "
        blank = [indent + "0"] + [""] * (told.group().count("\n") - 1)
        lines[line - 1 : last] = (
            body[: header.end()] + "\n".join(blank) + "\n" + rest[told.end() :]
        ).split("\n")
        path.write_text("\n".join(lines), "utf-8")
        done.append((file, f"{cls}::{name}" if cls else name, line, text))
    return done


def measures(ranks: list) -> dict:
    count = max(1, len(ranks))
    found = [rank for rank in ranks if rank]
    return {
        "MRR": sum(1 / rank for rank in found) / count,
        "NDCG@10": sum(1 / math.log2(rank + 1) for rank in found if rank <= 10) / count,
        "recall@10": sum(rank <= 10 for rank in found) / count,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--program", type=pathlib.Path, default=ROOT / "build/release/bin/crosscheck"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--tests", type=int, default=400, help="how many are asked for")
    parser.add_argument("--tree", type=pathlib.Path, help="another than Debian's 2.6.0")
    parser.add_argument(
        "--out", type=pathlib.Path, default=ROOT / "evaluate/results/search.json"
    )
    arguments = parser.parse_args()
    tree = arguments.tree
    if tree is None:
        done = subprocess.run(
            [ROOT / "scripts/fetch-test-trees", "--next", "--print"],
            stdout=subprocess.PIPE,
            text=True,
        )
        if done.returncode != 0:
            sys.exit(done.returncode)
        tree = pathlib.Path(done.stdout.split("\n")[0])
    rng = random.Random(arguments.seed)
    ranks: dict = {"words": [], "meaning": [], "both": []}
    with tempfile.TemporaryDirectory() as folder:
        copy = pathlib.Path(folder) / "tree"
        shutil.copytree(tree, copy, ignore_dangling_symlinks=True)
        memory = pathlib.Path(folder) / "memory.db"
        told = described(arguments.program, copy, memory)
        drawn = rng.sample(told, min(arguments.tests, len(told)))
        drawn.sort(key=lambda test: (test[0], -test[3]))
        asked = take_out(copy, drawn)
        left = {
            (file, f"{cls}::{name}" if cls else name)
            for file, cls, name, *_ in described(arguments.program, copy, memory)
        }
        asked = [test for test in asked if test[:2] not in left]
        for file, name, line, text in asked:
            words = re.sub(r"[:\s]+", " ", text).strip()
            for by, places in ranks.items():
                hits = json.loads(
                    call(
                        arguments.program,
                        *("search", "--memory", memory, "--by", by),
                        *("--limit", LIMIT, "--json", "--", words),
                    )
                )["hits"]
                found = [(hit["file"], hit["name"], hit["line"]) for hit in hits]
                place = (file, name, line)
                places.append(found.index(place) + 1 if place in found else 0)
    if not asked:
        sys.exit("no test could be asked for")
    result = {by: measures(places) for by, places in ranks.items()}
    print(
        f"{len(asked)} tests asked for by their author's first sentence, of {len(told)} with one:"
    )
    for by, found in result.items():
        print(f"  {by:8}", *(f"{name} {value:.3f}" for name, value in found.items()))
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps({"asked": len(asked), **result}, indent=2))
    return 0 if result["both"]["NDCG@10"] >= result["words"]["NDCG@10"] else 1


if __name__ == "__main__":
    sys.exit(main())
