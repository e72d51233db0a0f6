"""Does `crosscheck diff` recognise tests that were renamed?

Tests of Debian's PyTorch are renamed in a copy, and half of them edited a little, so that the truth
is known; then pairs found between two real versions are drawn, to be read.
"""

import argparse
import ast
import json
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
WANTED = 0.95


def diff(program: pathlib.Path, old: pathlib.Path, new: pathlib.Path) -> dict:
    done = subprocess.run(
        [program, "diff", old, new, "--json"],
        stdout=subprocess.PIPE,
        text=True,
    )
    if done.returncode not in (0, 1):
        sys.exit(f"crosscheck diff ended with {done.returncode}")
    return json.loads(done.stdout)


def rename_some(tree: pathlib.Path, share: float, rng: random.Random) -> dict:
    """Renames tests in place; returns where each was and is, as (file, class, method)."""
    truth = {}
    for path in sorted(tree.rglob("*.py")):
        text = path.read_text("utf-8", "replace")
        try:
            module = ast.parse(text)
        except SyntaxError:
            continue
        lines = text.split("\n")
        file = path.relative_to(tree).as_posix()
        inserted = []
        for cls in [node for node in module.body if isinstance(node, ast.ClassDef)]:
            names = [
                node.name for node in cls.body if isinstance(node, ast.FunctionDef)
            ]
            for method in [
                node for node in cls.body if isinstance(node, ast.FunctionDef)
            ]:
                if not method.name.startswith("test") or names.count(method.name) > 1:
                    continue
                if rng.random() > share or len(method.body) < 3:
                    continue
                name = f"test_renamed_{rng.randrange(10**6)}"
                if name in names:
                    continue
                row = method.lineno - 1
                lines[row] = re.sub(rf"\b{method.name}\b", name, lines[row], count=1)
                # Every second one is edited too: a statement more.
                if rng.random() < 0.5:
                    last = method.body[-1]
                    inserted.append(
                        (last.lineno - 1, " " * last.col_offset + "edited = device")
                    )
                truth[file, cls.name, method.name] = (file, cls.name, name)
        for row, line in sorted(inserted, reverse=True):
            lines.insert(row, line)
        path.write_text("\n".join(lines), "utf-8")
    return truth


def place(entry: dict) -> tuple:
    cls, _, name = entry["name"].rpartition("::")
    return entry["file"], cls, name


def synthetic(program: pathlib.Path, tree: pathlib.Path, rng: random.Random) -> dict:
    with tempfile.TemporaryDirectory() as folder:
        copy = pathlib.Path(folder) / "tree"
        shutil.copytree(tree, copy, ignore_dangling_symlinks=True)
        truth = rename_some(copy, 0.1, rng)
        found = {
            place(pair["from"]): place(pair["to"])
            for pair in diff(program, tree, copy)["renamed"]
        }
    right = sum(found.get(was) == now for was, now in truth.items())
    wrong = sum(truth.get(was) != now for was, now in found.items())
    return {"renamed": len(truth), "recognised": right, "false": wrong}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", default=ROOT / "build/release/bin/crosscheck")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--pairs", type=int, default=100, help="how many are drawn to be read"
    )
    parser.add_argument(
        "--out", type=pathlib.Path, default=ROOT / "evaluate/results/renames.json"
    )
    arguments = parser.parse_args()
    rng = random.Random(arguments.seed)

    def fetched(*options: str) -> pathlib.Path:
        done = subprocess.run(
            [ROOT / "scripts/fetch-test-trees", *options],
            stdout=subprocess.PIPE,
            text=True,
        )
        if done.returncode != 0:
            sys.exit(done.returncode)
        return pathlib.Path(done.stdout.split("\n")[0])

    old, new = fetched("--print"), fetched("--next", "--print")
    result = synthetic(arguments.program, old, rng)
    share = result["recognised"] / max(1, result["renamed"])
    print(
        f"synthetic renames of {old.parent.parent.name}: {result['recognised']} of "
        f"{result['renamed']} recognised ({share:.1%}), {result['false']} false"
    )
    pairs = diff(arguments.program, old, new)["renamed"]
    drawn = rng.sample(pairs, min(arguments.pairs, len(pairs)))
    print(
        f"{len(pairs)} pairs from the older to the newer tree; {len(drawn)} of them, to be read:"
    )
    for pair in drawn:
        was, now = pair["from"], pair["to"]
        print(
            f"  {pair['likeness']:.2f}  {was['file']}:{was['line']} {was['name']}\n"
            f"     ->  {now['file']}:{now['line']} {now['name']}"
        )
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(
        json.dumps({**result, "pairs": len(pairs), "drawn": drawn}, indent=2)
    )
    return 0 if share >= WANTED else 1


if __name__ == "__main__":
    sys.exit(main())
