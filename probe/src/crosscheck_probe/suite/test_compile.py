"""torch.compile: that captured programs compute on the device what they compute uncompiled."""

from __future__ import annotations

import copy
from typing import Any

import torch
from crosscheck_suite import SuiteCase
from torch.testing._internal.common_device_type import instantiate_device_type_tests
from torch.testing._internal.common_utils import parametrize

_PROGRAMS: dict[str, Any] = {
    "pointwise": lambda x: (x * 2 + 1).relu(),
    "reduction": lambda x: x.sum(0) / x.shape[0],
    "matmul": lambda x: x @ x.t(),
    "view": lambda x: x.t().reshape(-1)[1:] + 1,
    "condition": lambda x: x + 1 if x.shape[0] > 2 else x - 1,
    "factory": lambda x: x + torch.ones(x.shape, device=x.device),
    "in_place": lambda x: x.clone().mul_(3).add_(x),
    "softmax": lambda x: torch.softmax(x, -1),
}
_BACKENDS = ("eager", "aot_eager")


class TestCompile(SuiteCase):
    def setUp(self) -> None:
        super().setUp()
        torch._dynamo.reset()

    def _values(self) -> torch.Tensor:
        return torch.linspace(-1, 1, 12).reshape(3, 4)

    @parametrize("backend", _BACKENDS)
    @parametrize("program", sorted(_PROGRAMS))
    def test_forward(self, device: str, program: str, backend: str) -> None:
        run = torch.compile(_PROGRAMS[program], backend=backend, fullgraph=True)
        expected = _PROGRAMS[program](self._values())
        self.assert_agrees(run(self._values().to(device)), expected, device)

    @parametrize("program", ("pointwise", "matmul", "softmax"))
    def test_backward(self, device: str, program: str) -> None:
        run = torch.compile(_PROGRAMS[program], backend="aot_eager", fullgraph=True)
        here = self._values().requires_grad_()
        there = self._values().to(device).requires_grad_()
        _PROGRAMS[program](here).pow(2).sum().backward()
        run(there).pow(2).sum().backward()
        self.assert_agrees(there.grad, here.grad, device)

    @parametrize("backend", _BACKENDS)
    def test_module(self, device: str, backend: str) -> None:
        network = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())
        twin = copy.deepcopy(network).to(device)
        run = torch.compile(twin, backend=backend)
        self.assert_agrees(run(self._values().to(device)), network(self._values()), device)

    def test_shapes_change(self, device: str) -> None:
        run = torch.compile(_PROGRAMS["pointwise"], backend="eager", dynamic=True)
        for rows in (2, 3, 5):
            values = torch.linspace(-1, 1, rows * 4).reshape(rows, 4)
            expected = _PROGRAMS["pointwise"](values)
            self.assert_agrees(run(values.to(device)), expected, device)


instantiate_device_type_tests(TestCompile, globals())
