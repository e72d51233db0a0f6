"""Which operators a test uses, by phase, as both observers see them."""

from __future__ import annotations

from typing import Any

import pytest
from conftest import Answer, Tree, ask

FILE = """
    import threading
    import torch
    from torch.testing import make_tensor
    from torch.testing._internal.common_utils import TestCase

    class TestPhases(TestCase):
        def setUp(self):
            super().setUp()
            self.held = torch.eye(2)

        def tearDown(self):
            self.held.tril()
            super().tearDown()

        def test_all(self):
            x = make_tensor(3, device="cpu", dtype=torch.float32).requires_grad_()
            y = torch.nn.functional.linear(x, torch.ones(2, 3)).sinh()
            y.sum().backward()
            self.assertEqual(x.grad, x.grad)

        def test_fails(self):
            torch.ones(2).cosh()
            try:
                self.assertEqual(torch.ones(2), torch.zeros(2))
            except AssertionError:
                torch.ones(2).tanh()
                raise

        def test_thread(self):
            thread = threading.Thread(target=lambda: torch.ones(2).erf())
            thread.start()
            thread.join()

    def test_plain():
        torch.ones(2).acos()
"""


@pytest.fixture(scope="module")
def library() -> str:
    """The observer in C++."""
    line = ask("observer", {"observer": "record-function"}).of("observer")[0]
    assert "aten::linear" in line["composites"]
    assert line["aliases"]["aten::special_expit"] == "aten::sigmoid"
    assert line["delegates"]["aten::addmm"] == "aten::addmm.out"
    return str(line["library"])


def traced(tree: Tree, trace: dict[str, Any]) -> Answer:
    file = tree.write("test_phases.py", FILE)
    suite = {"name": "tree", "root": str(tree.root), "files": [file]}
    answer = ask("run", {"suite": suite, "file": file, "trace": trace})
    assert answer.code == 0, answer.output
    return answer


def check_phases(found: dict[str, dict[str, Any]]) -> dict[str, Any]:
    every = found["test_all"]["operators"]
    assert every["setup"]["aten::uniform_"] == 1
    assert every["setup"]["aten::tril"] == 1
    assert "aten::eye" in every["setup"]
    assert every["forward"]["aten::sinh"] == 1
    assert every["backward"]["aten::cosh"] == 1
    assert "aten::cosh" not in every["forward"]
    assert every["comparison"]["aten::eq.Tensor"] >= 1
    failing = found["test_fails"]["operators"]
    assert failing["forward"]["aten::tanh"] == 1, "a comparison that raises has ended"
    assert "aten::sinh" not in failing["forward"], "of another test"
    assert found["test_plain"]["operators"]["forward"]["aten::acos"] == 1
    return every


def test_a_dispatch_mode_sees_what_is_below_autograd(tree: Tree) -> None:
    found = traced(tree, {"observer": "dispatch-mode"}).finishes()
    every = check_phases(found)
    assert "aten::linear" not in every["forward"]
    assert "aten::erf" not in found["test_thread"]["operators"].get("forward", {})


def test_the_observer_also_sees_composites_and_other_threads(tree: Tree, library: str) -> None:
    found = traced(tree, {"observer": "record-function", "library": library}).finishes()
    assert check_phases(found)["forward"]["aten::linear"] == 1
    assert found["test_thread"]["operators"]["forward"]["aten::erf"] == 1


def test_a_run_without_a_trace_says_nothing_of_operators(tree: Tree) -> None:
    answer = tree.run(tree.write("test_phases.py", FILE), ["test_plain"])
    assert "operators" not in answer.finishes()["test_plain"]


@pytest.mark.parametrize("trace", [{"observer": "eyes"}, {"observer": "record-function"}, []])
def test_a_wrong_request_is_refused(tree: Tree, trace: Any) -> None:
    file = tree.write("test_phases.py", FILE)
    suite = {"name": "tree", "root": str(tree.root), "files": [file]}
    answer = ask("run", {"suite": suite, "file": file, "trace": trace})
    assert answer.code == 2
    assert "trace" in answer.of("request_error")[0]["message"]


def test_without_a_compiler_it_says_why_and_takes_the_mode(tmp_path: Any) -> None:
    nothing = {"PATH": "/nonexistent", "XDG_CACHE_HOME": str(tmp_path)}
    line = ask("observer", {"observer": "auto"}, nothing).of("observer")[0]
    assert line["observer"] == "dispatch-mode"
    assert "there is no C++ compiler" in line["note"]
    refused = ask("observer", {"observer": "record-function"}, nothing)
    assert refused.code == 4
    assert refused.of("environment_error")[0]["what"] == "observer"
