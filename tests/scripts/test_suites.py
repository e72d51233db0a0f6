"""scripts/suites.py must never sum up a suite that died as one that passed."""

import importlib.util
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
_spec = importlib.util.spec_from_file_location("suites", ROOT / "scripts" / "suites.py")
suites = importlib.util.module_from_spec(_spec)
sys.modules["suites"] = suites
_spec.loader.exec_module(suites)

PASSED = '<testsuite><testcase name="a"/><testcase name="b"><skipped/></testcase></testsuite>'
FAILED = (
    '<testsuite failures="0"><testcase classname="C" name="a">'
    '<failure message="no">why</failure></testcase></testsuite>'
)
ERROR = "<testsuites><testsuite><testcase><error>broke</error></testcase></testsuite></testsuites>"
NOT_RUN = (
    '<testsuite><testcase name="a" status="run"/><testcase name="b" status="notrun"/></testsuite>'
)
JUNIT = suites.Suite("s", ["x"])
PLAIN = suites.Suite("s", ["x"], plain=True)


@pytest.mark.parametrize(
    "suite, exit_code, junit, line",
    [
        (JUNIT, 0, PASSED, "1 passed, 0 failed, 1 skipped"),
        (JUNIT, 1, FAILED, "0 passed, 1 failed"),
        (JUNIT, 1, ERROR, "0 passed, 1 failed"),
        (JUNIT, 0, NOT_RUN, "1 passed, 0 failed, 1 skipped"),
        (JUNIT, 0, None, "0 passed, 1 failed"),  # wrote no report
        (JUNIT, -11, None, "0 passed, 1 failed"),  # crashed
        (JUNIT, -11, PASSED, "1 passed, 1 failed, 1 skipped"),  # crashed after its report
        (JUNIT, 1, PASSED, "1 passed, 1 failed, 1 skipped"),
        (JUNIT, 0, "<testsuite><testca", "0 passed, 1 failed"),  # cut off
        (JUNIT, 0, "<testsuite/>", "0 passed, 1 failed"),  # ran nothing
        (JUNIT, None, PASSED, "1 passed, 1 failed, 1 skipped"),  # timed out
        (JUNIT, 0, FAILED, "0 passed, 1 failed"),
        (PLAIN, 0, None, "1 passed, 0 failed"),
        (PLAIN, 1, None, "0 passed, 1 failed"),
        (PLAIN, -9, None, "0 passed, 1 failed"),
        (PLAIN, None, None, "0 passed, 1 failed"),
    ],
)
def test_conclusion(suite, exit_code, junit, line):
    result = suites.conclude(suite, exit_code, junit, "the last words")
    assert result.closing_line() == line
    assert len(result.failures) == result.failed


def test_failure_names_test_message_and_text():
    assert suites.conclude(JUNIT, 1, FAILED, "").failures == [("C::a", "no\nwhy")]


def test_a_dead_suite_shows_its_last_words():
    assert "the last words" in suites.conclude(JUNIT, -11, None, "the last words").failures[0][1]


def test_run_all_sums_and_kills_what_is_left(tmp_path, capsys):
    pid_file = tmp_path / "pid"
    total = suites.run_all(
        [
            suites.Suite("good", ["sh", "-c", f"printf '%s' '{PASSED}' > {{junit}}"]),
            suites.Suite("crash", ["sh", "-c", "kill -SEGV $$"]),
            suites.Suite("absent", ["/nonexistent/program"]),
            suites.Suite(
                "hang", ["sh", "-c", f"sleep 1000 & echo $! > {pid_file}; wait"], timeout=0.5
            ),
        ],
        tmp_path / "reports",
        jobs=2,
    )
    assert total.closing_line() == "1 passed, 3 failed, 1 skipped"
    printed = capsys.readouterr().out
    assert "signal 11" in printed and "cannot be started" in printed and "did not end" in printed
    left = pathlib.Path("/proc") / pid_file.read_text().strip() / "stat"
    assert not left.exists() or left.read_text().split()[2] == "Z"


def _node(tmp_path, text):
    file = tmp_path / "x.test.mjs"
    file.write_text("import test from 'node:test';\nimport assert from 'node:assert';\n" + text)
    report = tmp_path / "x.xml"
    done = subprocess.run(
        [
            "node",
            "--test",
            "--test-reporter=./tests/junit-reporter.mjs",
            f"--test-reporter-destination={report}",
            str(file),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    return suites.conclude(
        JUNIT,
        done.returncode,
        report.read_text() if report.exists() else None,
        done.stdout + done.stderr,
    )


@pytest.mark.parametrize(
    "text, line",
    [
        ("test('a', () => {});", "1 passed, 0 failed"),
        ("test('a', () => assert.equal(1, 2)); test('b <&>', () => {});", "1 passed, 1 failed"),
        (
            "test('p', async (t) => { await t.test('c', () => {});"
            " await t.test('d', () => { throw new Error('x'); }); });",
            "1 passed, 1 failed",
        ),
        (
            "test('p', async (t) => { await t.test('c', () => {}); throw new Error('own'); });",
            "1 passed, 1 failed",
        ),
        (
            "test('s', {skip: 'not here'}, () => {}); test('a', () => {});",
            "1 passed, 0 failed, 1 skipped",
        ),
        ("process.kill(process.pid, 'SIGKILL');", "0 passed, 1 failed"),
        ("import './missing.mjs';", "0 passed, 1 failed"),
    ],
)
def test_node_reporter(tmp_path, text, line):
    assert _node(tmp_path, text).closing_line() == line


def test_closing_line_comes_last_and_exit_code_agrees():
    done = subprocess.run(
        [sys.executable, "scripts/suites.py", "--only", "no such suite", "--list"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout) == (0, "")
