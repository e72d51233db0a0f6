"""The suites of scripts/deep: sanitizers, clang-tidy, fuzzing, and the long fault runs."""

import argparse
import json
import os
import shutil
import sys
import time

import suites
from suites import ROOT, Suite

FUZZ_SECONDS = int(os.environ.get("CROSSCHECK_FUZZ_SECONDS", "60"))


def build_suite(preset: str, *targets: str) -> Suite:
    return Suite(f"build:{preset}", ["scripts/build", preset, *targets], timeout=3600, plain=True)


def sanitizer_suites(preset: str) -> list[Suite]:
    environment = {
        "ASAN_OPTIONS": "detect_stack_use_after_return=1:strict_string_checks=1",
        "UBSAN_OPTIONS": "print_stacktrace=1",
        "TSAN_OPTIONS": "second_deadlock_stack=1",
    }
    found = suites.cpp_suites(preset, preset)
    for suite in found:
        suite.environment = environment
        # Address space layouts with many random bits do not leave the thread sanitizer its shadow.
        if preset == "tsan" and shutil.which("setarch"):
            suite.command = ["setarch", "-R", *suite.command]
    return found


def tidy_suites() -> list[Suite]:
    commands = json.loads((ROOT / "build/tidy/compile_commands.json").read_text())
    sources = sorted(
        {
            entry["file"]
            for entry in commands
            if entry["file"].startswith(f"{ROOT}/src/")
            and entry["file"].endswith(".cc")
            and "/test/" not in entry["file"]
        }
    )
    return [
        Suite(
            f"tidy:{source.removeprefix(f'{ROOT}/src/')}",
            ["clang-tidy-19", "-p", "build/tidy", "--quiet", "--warnings-as-errors=*", source],
            plain=True,
        )
        for source in sources
    ]


def fuzz_suites() -> list[Suite]:
    found = []
    for binary in sorted((ROOT / "build/fuzz/fuzz").glob("*_fuzz")):
        corpus = ROOT / "build/fuzz/corpus" / binary.name
        corpus.mkdir(parents=True, exist_ok=True)
        seeds = [str(path) for path in (ROOT / "src").glob(f"*/fuzz/{binary.name}_corpus")]
        found.append(
            Suite(
                f"fuzz:{binary.name.removesuffix('_fuzz')}",
                [
                    str(binary),
                    f"-max_total_time={FUZZ_SECONDS}",
                    "-timeout=10",
                    "-rss_limit_mb=3000",
                    "-print_final_stats=1",
                    f"-artifact_prefix=build/fuzz/{binary.name}-",
                    str(corpus),
                    *seeds,
                ],
                timeout=FUZZ_SECONDS + 120,
                plain=True,
            )
        )
    return found


def long_suites() -> list[Suite]:
    found = [
        suite
        for name in ("crash", "import", "kill", "plain", "store-faults", "runner", "gate-torch")
        for suite in suites.node_suites("e2e", f"{name}.test.mjs")
    ]
    workloads = suites.pytest_suite("probe:workloads", "probe/tests/test_workload_long.py")
    workloads.timeout = 3600
    found.append(workloads)
    for suite in found:
        suite.name = f"long:{suite.name}"
        # Whole files of PyTorch's tests, twice: an hour where the processors are shared.
        suite.timeout = 5400
        suite.environment = {"CROSSCHECK_LONG": "1"}
    return found


def configure(preset: str) -> Suite:
    return Suite(f"configure:{preset}", ["cmake", "--preset", preset], plain=True)


# One after the other: what must be built, then what runs on it.
STAGES = {
    "asan-ubsan": (lambda: [build_suite("asan-ubsan")], lambda: sanitizer_suites("asan-ubsan")),
    "tsan": (lambda: [build_suite("tsan")], lambda: sanitizer_suites("tsan")),
    "tidy": (lambda: [configure("tidy")], tidy_suites),
    "fuzz": (lambda: [build_suite("fuzz")], fuzz_suites),
    "long": (lambda: [build_suite("release")], long_suites),
    "dist": (
        lambda: [Suite("dist", ["scripts/dist"], timeout=3600, plain=True)],
        lambda: [Suite("dist:clean-root", ["scripts/dist-test"], timeout=1800, plain=True)],
    ),
}


def main() -> int:
    parser = argparse.ArgumentParser(description="What is too long for every run")
    parser.add_argument(
        "--only",
        action="append",
        default=[],
        choices=[*STAGES],
        help="only this stage; may be given again",
    )
    arguments = parser.parse_args()
    started = time.monotonic()
    folder = ROOT / "build" / "reports" / "deep"
    total = suites.Sum()
    for name, (prepare, make) in STAGES.items():
        if arguments.only and name not in arguments.only:
            continue
        begun = time.monotonic()
        prepared = suites.run_all(prepare(), folder, 1)
        if prepared.failed:
            total.add(prepared)
            continue
        found = make()
        if not found:
            total.add(suites.Sum(failed=1, failures=[(name, "there is nothing to run")]))
            print(f"FAILED {name}: there is nothing to run")
            continue
        total.add(suites.run_all(found, folder, 2))
        print(f"{name}: {time.monotonic() - begun:.0f} s\n", flush=True)
    print(f"reports: {folder.relative_to(ROOT)}   time: {time.monotonic() - started:.0f} s")
    print(total.closing_line(), flush=True)
    return 1 if total.failed else 0


if __name__ == "__main__":
    sys.exit(main())
