"""The reference device, each case in a process of its own since a device is configured once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from typing import Any

import pytest
from conftest import Tree

Configured = Callable[[dict[str, Any]], dict[str, str]]


def run(
    refdev: str, program: str, variables: dict[str, str] | None = None, deadline: float = 120
) -> subprocess.CompletedProcess[str]:
    environment = {k: v for k, v in os.environ.items() if k != "REFDEV_CONFIG"}
    environment.update({"PYTHONPATH": refdev, "OMP_NUM_THREADS": "1"}, **(variables or {}))
    return subprocess.run(
        [sys.executable, "-c", "import torch, refdev\n" + textwrap.dedent(program)],
        capture_output=True,
        text=True,
        env=environment,
        timeout=deadline,
    )


def passes(refdev: str, program: str, variables: dict[str, str] | None = None) -> None:
    # An autograd thread that meets a finalizing interpreter may abort it.
    done = run(refdev, textwrap.dedent(program) + "\nimport os; os._exit(0)", variables)
    assert done.returncode == 0, done.stderr


def test_is_a_device(refdev: str) -> None:
    passes(
        refdev,
        """
        t = torch.empty(3, device="refdev").fill_(2)
        assert t.device == torch.device("refdev:0") and t.is_refdev and t.sum().item() == 6
        assert torch.refdev.is_available() and torch.refdev.device_count() == 1
        assert torch.accelerator.current_accelerator().type == "refdev"
        try: torch.empty(1, device="refdev:1")
        except RuntimeError as error: assert "one device" in str(error)
        else: raise AssertionError("refdev:1")
        linear = torch.nn.Linear(3, 2).to("refdev")
        loss = linear(torch.ones(4, 3, device="refdev")).pow(2).mean()
        loss.backward()
        assert linear.weight.grad.device.type == "refdev"
        conv = torch.nn.Conv2d(2, 3, 3).refdev()
        x = torch.ones(1, 2, 5, 5, device="refdev", requires_grad=True)
        conv(x).sum().backward()
        assert x.grad.shape == x.shape and conv.bias.grad.cpu().tolist() == [9.0] * 3
        """,
    )


def test_copies(refdev: str) -> None:
    passes(
        refdev,
        """
        base = torch.arange(24.).reshape(2, 3, 4)
        there = base.to("refdev")
        assert torch.equal(there.cpu(), base)
        assert torch.equal(there.transpose(0, 2).cpu(), base.transpose(0, 2))
        assert torch.equal(there[:, 1:, ::2].to(torch.int32).cpu(), base[:, 1:, ::2].int())
        spread = torch.empty(3, 4, device="refdev").copy_(base[0, 0])
        assert torch.equal(spread.cpu()[2], base[0, 0])
        z = torch.tensor([1 + 2j]).to("refdev")
        assert z.conj().cpu().item() == 1 - 2j and z.conj().imag.cpu().item() == -2
        there.resize_(30)
        assert torch.equal(there[:24].cpu(), base.flatten())
        storage = there.untyped_storage(); storage.resize_(8)
        assert storage.nbytes() == 8 and storage.cpu().nbytes() == 8
        """,
    )


def test_memory_is_counted_and_bounded(refdev: str, configured: Configured) -> None:
    passes(
        refdev,
        """
        before = refdev.memory_stats()
        assert before["limit"] == 16 << 20
        t = torch.empty(1 << 20, dtype=torch.uint8, device="refdev")
        assert refdev.memory_allocated() - before["allocated"] == 1 << 20
        try: torch.empty(32 << 20, dtype=torch.uint8, device="refdev")
        except torch.OutOfMemoryError as error: assert "refdev out of memory" in str(error)
        else: raise AssertionError("no limit")
        del t
        assert refdev.memory_allocated() == before["allocated"]
        assert refdev.max_memory_allocated() >= 1 << 20
        refdev.reset_peak_memory_stats()
        assert refdev.max_memory_allocated() == before["allocated"]
        for _ in range(64):  # fragments are joined again
            parts = [torch.empty(n << 10, dtype=torch.uint8, device="refdev") for n in range(1, 90)]
            del parts
        whole = torch.empty(16 << 20, dtype=torch.uint8, device="refdev")
        """,
        configured({"memory_mib": 16}),
    )


def test_host_cannot_touch_device_memory(refdev: str) -> None:
    done = run(
        refdev,
        """
        import ctypes
        ctypes.string_at(torch.ones(8, device="refdev").data_ptr(), 1)
        """,
    )
    assert done.returncode == -signal.SIGSEGV


def test_random_numbers_follow_the_seed(refdev: str) -> None:
    passes(
        refdev,
        """
        def draw(): return torch.rand(8, device="refdev").cpu()
        torch.manual_seed(5); a = draw()
        torch.manual_seed(5); torch.rand(3); assert torch.equal(draw(), a)  # not the CPU's numbers
        state = torch.refdev.get_rng_state(); b = draw()
        torch.refdev.set_rng_state(state); assert torch.equal(draw(), b)
        g = torch.Generator(device="refdev").manual_seed(1)
        c = torch.rand(4, device="refdev", generator=g)
        assert torch.equal(torch.rand(4, device="refdev", generator=g.manual_seed(1)), c)
        assert torch.refdev.initial_seed() == 5
        """,
    )


def test_missing_operator_is_the_natural_error(refdev: str, configured: Configured) -> None:
    passes(
        refdev,
        """
        a = torch.ones(2).to("refdev")
        assert (a + a).cpu().tolist() == [2, 2]
        try: a * a
        except NotImplementedError as error:
            text = "Could not run 'aten::mul.out' with arguments from the 'refdev' backend"
            assert text in str(error)
        else: raise AssertionError("mul")
        """,
        configured({"operators": ["aten::add.out"]}),
    )


@pytest.mark.parametrize("chosen", ["core", "wide", "all"])
def test_sets_load(refdev: str, configured: Configured, chosen: str) -> None:
    passes(
        refdev,
        f"""
        assert refdev.configuration.name == {chosen!r}
        assert len(refdev.configuration.operators) > 150
        assert refdev.crosscheck_facts()["operators"].startswith({chosen!r})
        assert torch.ones(2, 2, device="refdev").mm(torch.ones(2, 2, device="refdev")).sum() == 8
        """,
        configured({"operators": "all" if chosen == "all" else {"set": chosen}}),
    )


@pytest.mark.parametrize(
    ("configuration", "says"),
    [
        ({"operators": ["aten::ad.out"]}, "the nearest is 'aten::add.out'"),
        ({"operators": ["aten::linear"]}, "composed of other operators"),
        ({"operators": ["aten::transpose.int"]}, "cannot be executed"),
        ({"operators": {"set": "cor"}}, "only core, wide"),
        ({"operators": 3}, '"operators" must be'),
        ({"operator": []}, "the nearest is 'operators'"),
        ({"faults": {"aten::mm.out": "boom"}}, "wrong_value, raise, crash, hang"),
        ({"faults": {"aten::mm": "raise"}}, "the nearest is 'aten::mm.out'"),
        ({"memory_mib": 0}, "memory_mib"),
        ([], "JSON object"),
    ],
)
def test_bad_configurations_are_explained(
    refdev: str, configured: Configured, configuration: Any, says: str
) -> None:
    done = run(refdev, "", configured(configuration))
    assert done.returncode == 1
    assert says in done.stderr.splitlines()[-1]


def test_fault_wrong_value(refdev: str, configured: Configured) -> None:
    passes(
        refdev,
        """
        a = torch.tensor([2., 4.]).to("refdev").requires_grad_()
        r = a * a
        assert r.tolist() == [7.0, 25.0], r
        assert (a + a).tolist() == [4.0, 8.0]
        r.sum().backward()
        assert a.grad.tolist() != [4.0, 8.0]
        assert torch.eq(a, a).tolist() == [False, False]
        i = torch.tensor([1]).to("refdev"); assert (i * i).item() == 2
        i.mul_(3); assert i.item() == 4
        """,
        configured(
            {"faults": {"aten::mul.out": "wrong_value", "aten::eq.Tensor_out": "wrong_value"}}
        ),
    )


def test_fault_raise(refdev: str, configured: Configured) -> None:
    passes(
        refdev,
        """
        a = torch.ones(2, 2, device="refdev", requires_grad=True)
        loss = a.tanh().sum()
        try: loss.backward()
        except RuntimeError as error: assert "device error: aten::tanh_back" in str(error), error
        else: raise AssertionError("backward went well")
        """,
        configured({"faults": {"aten::tanh_backward.grad_input": "raise"}}),
    )


def test_fault_crash(refdev: str, configured: Configured) -> None:
    done = run(
        refdev,
        "a = torch.ones(2, 2, device='refdev'); print('before', flush=True); a @ a; print('after')",
        configured({"faults": {"aten::mm.out": "crash"}}),
    )
    assert (done.returncode, done.stdout) == (-signal.SIGSEGV, "before\n")


def test_fault_hang(refdev: str, configured: Configured) -> None:
    variables = configured({"faults": {"aten::mm.out": "hang"}})
    program = "a = torch.ones(2, 2, device='refdev'); print('before', flush=True); a @ a"
    process = subprocess.Popen(
        [sys.executable, "-c", "import torch, refdev\n" + program],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": refdev, **variables},
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"before\n"
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(timeout=2)
    process.kill()
    assert process.wait() == -signal.SIGKILL


def test_fault_through_the_probe(
    tree: Tree, refdev_device: dict[str, Any], configured: Configured
) -> None:
    file = tree.write(
        "test_faults.py",
        """
        import torch
        def test_adds(): torch.ones(2, device="refdev") + 1
        def test_crashes(): torch.ones(2, 2, device="refdev") @ torch.ones(2, 2, device="refdev")
        """,
    )
    variables = configured({"faults": {"aten::mm.out": "crash"}})
    answer = tree.run(file, device=refdev_device, environment=variables)
    assert answer.code == -signal.SIGSEGV
    assert answer.lines[0]["facts"]["refdev.faults"] == "aten::mm.out=crash"
    assert answer.lines[-1]["ev"] == "start"
    assert answer.finishes()["test_adds"]["outcome"] == "passed"
    assert "Fatal Python error: Segmentation fault" in answer.output


def test_memory_left_on_the_device_is_told(tree: Tree, refdev_device: dict[str, Any]) -> None:
    tree.write(
        "test_grows.py",
        """
        import unittest
        import torch
        held = []

        class TestGrows(unittest.TestCase):
            def test_a_keeps(self): held.append(torch.ones(1 << 20, device="refdev"))
            def test_b_frees(self): held.clear()
        """,
    )
    found = tree.run("test_grows.py", device=refdev_device).finishes()
    assert found["test_a_keeps"]["device_grown"] == 4 << 20
    assert found["test_b_frees"]["device_grown"] == -(4 << 20)
