"""The probe as a process, over test files that end in every way a test can end."""

from __future__ import annotations

import signal
from typing import Any

import pytest
from conftest import Answer, Tree, ask

OUTCOMES = """
    import os, sys, unittest
    import pytest
    import torch
    from torch.testing._internal.common_utils import (
        TestCase, instantiate_parametrized_tests, parametrize)
    from torch.testing._internal.common_device_type import instantiate_device_type_tests, dtypes

    class Odd(Exception):
        def __str__(self): raise ValueError("no text")

    class TestOutcomes(unittest.TestCase):
        def test_passes(self): pass
        def test_fails(self): self.assertEqual(1, 2, "told so")
        def test_raises(self): raise RuntimeError("boom\\x1b[31m <xml> \\0 ä")
        def test_long(self): raise RuntimeError("x" * 300000)
        def test_odd(self): raise Odd()
        def test_skips(self): self.skipTest("not here")
        @unittest.skip("never")
        def test_skipped(self): pass
        @unittest.expectedFailure
        def test_expected(self): self.fail("as known")
        @unittest.expectedFailure
        def test_unexpected(self): pass
        def test_subtests(self):
            for i in range(3):
                with self.subTest(i=i): self.assertEqual(i, 1)
        def test_system_exit(self): sys.exit(3)
        def test_interrupt(self): raise KeyboardInterrupt()
        def test_pytest_exit(self): pytest.exit("stop it all")
        def test_skip_exception(self): raise unittest.SkipTest("raised")

    class TestSetUp(unittest.TestCase):
        def setUp(self): raise RuntimeError("setUp broke")
        def test_a(self): pass

    class TestTearDown(unittest.TestCase):
        def tearDown(self): raise RuntimeError("tearDown broke")
        def test_b(self): pass

    class TestSetUpClass(unittest.TestCase):
        @classmethod
        def setUpClass(cls): raise RuntimeError("class broke")
        def test_c(self): pass

    class TestSetUpClassSkips(unittest.TestCase):
        @classmethod
        def setUpClass(cls): raise unittest.SkipTest("no class")
        def test_d(self): pass

    @pytest.fixture
    def broken(): raise RuntimeError("fixture broke")
    @pytest.fixture
    def late():
        yield
        raise RuntimeError("late")
    def test_fixture(broken): pass
    def test_teardown(late): pass
    def test_both(late): assert False, "call"
    @pytest.mark.xfail(reason="known")
    def test_xfail(): assert False
    @pytest.mark.xfail(reason="gone")
    def test_xpass(): pass
    @pytest.mark.xfail(reason="gone", strict=True)
    def test_xpass_strict(): pass
    @pytest.mark.skipif(True, reason="marked")
    def test_skipif(): pass
    def test_last(): pass
"""

EXPECTED: dict[str, tuple[str, str, Any, str]] = {
    "test_passes": ("passed", "call", None, ""),
    "test_fails": ("failed", "call", "AssertionError", "1 != 2 : told so"),
    "test_raises": ("failed", "call", "RuntimeError", "boom\x1b[31m <xml> \ufffd ä"),
    "test_long": ("failed", "call", "RuntimeError", "xxx"),
    "test_odd": ("failed", "call", "test_outcomes.Odd", "ValueError"),
    "test_skips": ("skipped", "call", None, "not here"),
    "test_skipped": ("skipped", "call", None, "never"),
    "test_expected": ("xfailed", "call", None, ""),
    "test_unexpected": ("xpassed", "call", None, "Unexpected success"),
    "test_subtests": ("failed", "call", "AssertionError", "0 != 1"),
    "test_system_exit": ("failed", "call", "SystemExit", "3"),
    "test_interrupt": ("failed", "call", "KeyboardInterrupt", ""),
    "test_pytest_exit": ("failed", "call", "_pytest.outcomes.Exit", "stop it all"),
    "test_skip_exception": ("skipped", "call", None, "raised"),
    "test_a": ("failed", "call", "RuntimeError", "setUp broke"),
    "test_b": ("failed", "call", "RuntimeError", "tearDown broke"),
    "test_c": ("error", "setup", "RuntimeError", "class broke"),
    "test_d": ("skipped", "setup", None, "no class"),
    "test_fixture": ("error", "setup", "RuntimeError", "fixture broke"),
    "test_teardown": ("error", "teardown", "RuntimeError", "late"),
    "test_both": ("failed", "call", "AssertionError", "call"),
    "test_xfail": ("xfailed", "call", None, "known"),
    "test_xpass": ("xpassed", "call", None, "gone"),
    "test_xpass_strict": ("xpassed", "call", None, "gone"),
    "test_skipif": ("skipped", "setup", None, "marked"),
    "test_last": ("passed", "call", None, ""),
}


@pytest.fixture(scope="module")
def outcomes(shared_tree: Tree) -> Answer:
    return shared_tree.run(shared_tree.write("test_outcomes.py", OUTCOMES))


@pytest.mark.parametrize("name", EXPECTED)
def test_outcome(outcomes: Answer, name: str) -> None:
    outcome, phase, kind, message = EXPECTED[name]
    finish = outcomes.finishes()[name]
    assert (finish["outcome"], finish["phase"], finish.get("type")) == (outcome, phase, kind)
    assert message in finish.get("message", "")
    assert finish["seconds"] >= 0
    assert ("traceback" in finish) == (kind is not None)


def test_growth_of_memory_is_told(tree: Tree) -> None:
    tree.write(
        "test_grows.py",
        """
        import unittest
        held = []

        class TestGrows(unittest.TestCase):
            def test_a_keeps(self): held.append(bytearray(b"x" * (64 << 20)))
            def test_b_frees(self): held.clear()
            def test_c_keeps_nothing(self): bytearray(b"x" * (64 << 20))
        """,
    )
    found = tree.run("test_grows.py").finishes()
    grown = {name: finish["host_grown"] for name, finish in found.items()}
    assert grown["test_a_keeps"] > 60 << 20
    assert grown["test_b_frees"] < -(60 << 20)
    assert grown["test_c_keeps_nothing"] < 8 << 20
    assert {finish["device_grown"] for finish in found.values()} == {0}


def test_every_test_starts_then_finishes(outcomes: Answer) -> None:
    assert outcomes.code == 0
    assert [line["ev"] for line in outcomes.lines[:2]] == ["environment", "ready"]
    assert outcomes.lines[-1] == {"ev": "end"}
    steps = outcomes.lines[2:-1]
    assert outcomes.lines[1]["collected"] == len(EXPECTED) == len(steps) // 2
    for start, finish in zip(steps[::2], steps[1::2]):
        assert (start["ev"], finish["ev"]) == ("start", "finish")
        assert start["node"] == finish["node"]


def test_texts_are_bounded(outcomes: Answer) -> None:
    finish = outcomes.finishes()["test_long"]
    assert len(finish["message"].encode()) <= 4096
    assert len(finish["traceback"].encode()) <= 65536
    assert finish["traceback"].rstrip().endswith("x")


def test_subtests_are_joined(outcomes: Answer) -> None:
    message = outcomes.finishes()["test_subtests"]["message"]
    assert "0 != 1" in message and "2 != 1" in message


def test_strictness_is_told(outcomes: Answer) -> None:
    found = outcomes.finishes()
    assert found["test_xpass_strict"]["strict"] and found["test_unexpected"]["strict"]
    assert "strict" not in found["test_xpass"]


def test_traceback_begins_in_the_test(outcomes: Answer) -> None:
    lines = outcomes.finishes()["test_fails"]["traceback"].splitlines()
    assert lines[0].startswith("Traceback") and "test_outcomes.py" in lines[1]


def test_environment_line(outcomes: Answer) -> None:
    import torch

    said = outcomes.lines[0]
    assert said["schema"] == 1 and said["torch"] == torch.__version__
    assert said["device"] == {"type": "cpu", "count": 1, "name": said["device"]["name"]}
    assert said["suite"].startswith("sha256:")
    assert all(isinstance(v, str) for v in said["facts"].values())
    assert said["facts"]["OMP_NUM_THREADS"] == "1"


def test_order_repeats_and_missing(shared_tree: Tree) -> None:
    file = shared_tree.write(
        "test_order.py",
        """
        import unittest
        class TestA(unittest.TestCase):
            def test_one(self): pass
            def test_two(self): pass
        class TestB(unittest.TestCase):
            def test_three(self): pass
        """,
    )
    asked = ["TestB::test_three", "TestA::test_two", "TestC::test_no", "TestA::test_one"]
    answer = shared_tree.run(file, asked, repeat=2)
    ran = [line["node"].split("::", 1)[1] for line in answer.of("start")]
    assert ran == [asked[0], asked[1], asked[3]] * 2
    assert [line["node"] for line in answer.of("missing")] == [f"{file}::TestC::test_no"]
    assert answer.of("ready") == [{"ev": "ready", "collected": 3}]
    assert all(line["outcome"] == "passed" for line in answer.of("finish"))


HOSTILE = """
    import os, sys, subprocess, unittest
    class TestHostile(unittest.TestCase):
        def test_1_closes_outputs(self):
            sys.stdout.close(); os.close(1); os.close(2); os.closerange(3, 256)
        def test_2_moves(self):
            import tempfile, shutil
            folder = tempfile.mkdtemp(); os.chdir(folder); shutil.rmtree(folder)
        def test_3_is_back(self):
            os.getcwd()
        def test_4_forks(self):
            child = os.fork()
            if child == 0:
                raise RuntimeError("a child that goes on as the harness")
            os.waitpid(child, 0)
        def test_5_starts_programs(self):
            self.assertEqual(subprocess.run(["true"], close_fds=False).returncode, 0)
        def test_6_passes(self): pass
"""


def test_channel_outlives_hostile_tests(tree: Tree) -> None:
    answer = tree.run(tree.write("test_hostile.py", HOSTILE))
    assert answer.code == 0, answer.output
    assert len(answer.of("start")) == len(answer.of("finish")) == 6
    assert {line["outcome"] for line in answer.of("finish")} == {"passed"}


@pytest.mark.parametrize(
    ("death", "code"),
    [
        ("ctypes.string_at(0)", -signal.SIGSEGV),
        ("os.abort()", -signal.SIGABRT),
        ("os.kill(os.getpid(), 9)", -signal.SIGKILL),
        ("os._exit(0)", 0),
    ],
)
def test_death_leaves_a_start_without_finish(tree: Tree, death: str, code: int) -> None:
    file = tree.write(
        "test_death.py",
        f"""
        import ctypes, os
        def test_lives(): pass
        def test_dies(): {death}
        def test_never(): pass
        """,
    )
    answer = tree.run(file)
    assert answer.code == code
    assert [line["ev"] for line in answer.lines[2:]] == ["start", "finish", "start"]
    assert answer.lines[-1]["node"].endswith("test_dies")


def test_every_frame_under_a_test_has_a_file(tree: Tree) -> None:
    """torch looks at the stack of every OpInfo test; one without a file costs it a millisecond."""
    file = tree.write(
        "test_stack.py",
        """
        import inspect, os
        def test_stack():
            assert [f.filename for f in inspect.stack() if not os.path.exists(f.filename)] == []
        """,
    )
    answer = tree.run(file)
    assert answer.finishes()["test_stack"]["outcome"] == "passed", answer.lines


COLLECTED = """
    import unittest
    import pytest, torch
    from torch.testing._internal.common_utils import (
        TestCase, instantiate_parametrized_tests, parametrize, subtest)
    from torch.testing._internal.common_device_type import (
        dtypes, instantiate_device_type_tests, ops)
    from torch.testing._internal.common_methods_invocations import op_db
    from torch.testing._internal.common_modules import module_db, modules

    class TestDevice(TestCase):
        @dtypes(torch.float32, torch.int64)
        def test_dtypes(self, device, dtype): pass
        @ops([o for o in op_db if o.full_name == "div.floor_rounding"],
             allowed_dtypes=(torch.float32,))
        def test_op(self, device, dtype, op): pass
        @modules([m for m in module_db if m.name == "nn.Linear"],
                 allowed_dtypes=(torch.float32,))
        def test_module(self, device, dtype, module_info, training): pass
        @parametrize("f", [subtest(lambda: 1, name="one"), subtest(lambda: 2, name="two")])
        def test_opaque(self, device, f): pass
        @dtypes((torch.float32, torch.int64))
        def test_pairs(self, device, dtypes): pass
    instantiate_device_type_tests(TestDevice, globals(), only_for=("cpu",))

    class TestParameters(TestCase):
        @parametrize("n,name", [(1, "a"), (2, "b")])
        def test_n(self, n, name): pass
        @unittest.skip("x")
        def test_skipped(self): pass
    instantiate_parametrized_tests(TestParameters)

    @pytest.mark.parametrize("k", [1, 2])
    @pytest.mark.slow
    def test_function(k): pass
"""


def test_collected_facts(shared_tree: Tree) -> None:
    file = shared_tree.write("test_collected.py", COLLECTED)
    answer = shared_tree.collect(file)
    assert answer.code == 0 and answer.lines[-1] == {"ev": "end"}
    assert answer.lines[1] == {"ev": "collecting", "file": file}
    found = {
        (line["class"], line["method"], tuple(sorted(line["variant"].items()))): line
        for line in answer.of("test")
    }
    device, linear = ("device", "cpu"), ("module", "nn.Linear")
    single = ("dtype", "float32")
    expected = {
        ("TestDevice", "test_dtypes", (device, single)),
        ("TestDevice", "test_dtypes", (device, ("dtype", "int64"))),
        ("TestDevice", "test_op", (device, single, ("op", "div.floor_rounding"))),
        ("TestDevice", "test_module", (device, single, linear, ("training", "True"))),
        ("TestDevice", "test_pairs", (device, ("dtypes", "float32,int64"))),
        ("TestParameters", "test_n", (("n", "1"), ("name", "a"))),
        ("TestParameters", "test_n", (("n", "2"), ("name", "b"))),
        ("TestParameters", "test_skipped", ()),
        ("", "test_function", (("k", "1"),)),
        ("", "test_function", (("k", "2"),)),
    }
    assert expected <= set(found)
    opaque = [dict(variant)["case"] for _, method, variant in found if method == "test_opaque"]
    assert sorted(opaque) == ["test_opaque_one_cpu", "test_opaque_two_cpu"]
    assert len(found) == len(expected) + 2 == len(answer.of("test"))
    assert found["TestParameters", "test_skipped", ()]["markers"] == ["skip"]
    assert "slow" in found["", "test_function", (("k", "1"),)]["markers"]
    assert all(line["quick"] is False for line in answer.of("test"))
    source = (shared_tree.root / file).read_text().splitlines()
    for line in answer.of("test"):
        near = "\n".join(source[line["line"] - 1 : line["line"] + 3])
        assert f"def {line['method']}(" in near


def test_identities_are_unique_and_short(shared_tree: Tree) -> None:
    file = shared_tree.write(
        "test_identities.py",
        """
        import pytest
        def make():
            class Inner:
                def test_x(self): pass
                @pytest.mark.parametrize("f", [lambda: 1, lambda: 2])
                def test_f(self, f): pass
            return Inner
        TestA, TestB = make(), make()
        @pytest.mark.parametrize("text", ["é" * 3000 + "1", "é" * 3000 + "2"])
        def test_long(text): pass
        """,
    )
    tests = shared_tree.collect(file).of("test")
    assert len(tests) == 8
    identities = {
        (t["class"], t["method"], tuple(sorted(t["variant"].items()))): t["node"] for t in tests
    }
    assert len(identities) == 8
    assert identities["Inner", "test_x", (("case", "TestB::test_x"),)] == f"{file}::TestB::test_x"
    assert all(len(v.encode()) <= 256 for t in tests for v in t["variant"].values())


def test_collection_goes_on_after_bad_files(shared_tree: Tree) -> None:
    bad = {
        "test_import.py": ("import not_there_at_all", "ModuleNotFoundError", "not_there_at_all"),
        "test_syntax.py": ("def f(:", "SyntaxError", "invalid syntax"),
        "test_raise.py": ("raise RuntimeError('at import')", "RuntimeError", "at import"),
        "test_exit.py": ("import sys; sys.exit(0)", "SystemExit", "0"),
        "test_stop.py": ("raise KeyboardInterrupt", "KeyboardInterrupt", ""),
    }
    for name, (text, _, _) in bad.items():
        shared_tree.write(name, text)
    shared_tree.write("test_absent.py", "import unittest; raise unittest.SkipTest('not for us')")
    shared_tree.write("test_good.py", "def test_good(): pass")
    answer = shared_tree.collect(*bad, "test_absent.py", "test_good.py")
    assert answer.code == 0, answer.output
    errors = {line["file"]: line for line in answer.of("collect_error")}
    assert set(errors) == set(bad)
    for name, (_, kind, message) in bad.items():
        assert (errors[name]["type"], message in errors[name]["message"]) == (kind, True)
    assert answer.of("collect_skip") == [
        {"ev": "collect_skip", "file": "test_absent.py", "message": "not for us"}
    ]
    assert [line["node"] for line in answer.of("test")] == ["test_good.py::test_good"]
    assert answer.lines[-1] == {"ev": "end"}
    ran = shared_tree.run("test_raise.py", ["test_a"])
    assert [line["ev"] for line in ran.lines] == [
        *("environment", "collect_error", "ready", "missing", "end")
    ]


def test_surroundings_do_not_leak_in(tree: Tree) -> None:
    tree.write("pytest.ini", "[pytest]\naddopts = --no-such-option\n")
    tree.write("conftest.py", "raise RuntimeError('conftest')")
    tree.write("sibling.py", "value = 1")
    file = tree.write("test_leak.py", "import sibling\ndef test_a(): assert sibling.value == 1")
    noise = {"PYTEST_ADDOPTS": "--no-such-option", "PYTEST_PLUGINS": "no_such_plugin"}
    answer = tree.run(file, environment=noise)
    assert answer.finishes()["test_a"]["outcome"] == "passed", answer.output


@pytest.mark.parametrize("verb", ["environment", "collect", "run"])
def test_torch_missing(tree: Tree, verb: str) -> None:
    file = tree.write("test_a.py", "def test_a(): pass")
    tree.write("torch.py", "raise ModuleNotFoundError(\"No module named 'torch'\")")
    request = {
        "suite": {"name": "tree", "root": str(tree.root), "files": [file]},
        "device": {"name": "cpu"},
        "file": file,
    }
    answer = ask(verb, request, paths=(str(tree.root),))
    (line,) = answer.lines
    assert answer.code == 4
    assert (line["ev"], line["what"]) == ("environment_error", "torch")
    assert "No module named 'torch'" in line["message"]


@pytest.mark.parametrize(
    ("device", "what"),
    [
        ({"name": "refdev", "setup": {"module": "no_such_backend"}}, "no_such_backend"),
        ({"name": "refdev", "setup": {"module": "json"}}, "registers the device"),
        ({"name": "nonsense"}, "knows no device"),
        ({"name": "mps"}, "is the device there?"),
    ],
)
def test_device_missing(tree: Tree, device: dict[str, Any], what: str) -> None:
    answer = tree.collect(tree.write("test_a.py", "def test_a(): pass"), device=device)
    assert answer.code == 4
    assert (answer.lines[-1]["ev"], answer.lines[-1]["what"]) == ("environment_error", "device")
    assert what in answer.lines[-1]["message"]


def test_bad_request_is_answered() -> None:
    answer = ask("run", {"suite": {"name": "bundled"}})
    assert answer.code == 2
    assert answer.lines == [{"ev": "request_error", "message": answer.lines[0]["message"]}]


def test_environment_needs_no_suite() -> None:
    answer = ask("environment")
    assert answer.code == 0 and [line["ev"] for line in answer.lines] == ["environment"]
    assert "suite" not in answer.lines[0]
