"""The mechanics of autograd across devices, optimizers, and autocast."""

from __future__ import annotations

import copy
from typing import Any

import torch
from crosscheck_suite import SuiteCase
from torch.testing._internal.common_device_type import instantiate_device_type_tests
from torch.testing._internal.common_utils import parametrize
from torch.utils.checkpoint import checkpoint

_OPTIMIZERS: dict[str, Any] = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1, foreach=False),
    "momentum": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True, foreach=False),
    "adam": lambda p: torch.optim.Adam(p, lr=0.1, foreach=False),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.1, foreach=False),
    "adagrad": lambda p: torch.optim.Adagrad(p, lr=0.1, foreach=False),
    "adadelta": lambda p: torch.optim.Adadelta(p, foreach=False),
    "rmsprop": lambda p: torch.optim.RMSprop(p, lr=0.1, foreach=False),
    "rprop": lambda p: torch.optim.Rprop(p, lr=0.1, foreach=False),
    "sgd_foreach": lambda p: torch.optim.SGD(p, lr=0.1, foreach=True),
    "adam_foreach": lambda p: torch.optim.Adam(p, lr=0.1, foreach=True),
}


def _network() -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))


def _batch() -> torch.Tensor:
    return torch.linspace(-1, 1, 12).reshape(3, 4)


class _Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, value: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(value)
        return value * 2

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        (value,) = ctx.saved_tensors
        return grad * 2 + value * 0


class TestAutogradMechanics(SuiteCase):
    def _leaf(self, device: str) -> torch.Tensor:
        return torch.linspace(-1, 1, 6).to(device).requires_grad_()

    def test_accumulates(self, device: str) -> None:
        leaf = self._leaf(device)
        for _ in range(3):
            (leaf * 2).sum().backward()
        self.assert_agrees(leaf.grad, torch.full((6,), 6.0), device)

    def test_crosses_devices(self, device: str) -> None:
        leaf = torch.ones(3, requires_grad=True)
        ((leaf * 2).to(device) * 3).cpu().sum().backward()
        self.assertEqual(leaf.grad, torch.full((3,), 6.0))

    def test_double_backward(self, device: str) -> None:
        leaf = self._leaf(device)
        (first,) = torch.autograd.grad((leaf * leaf * leaf).sum(), leaf, create_graph=True)
        (second,) = torch.autograd.grad(first.sum(), leaf)
        self.assert_agrees(second, 6 * torch.linspace(-1, 1, 6), device)

    def test_hooks_see_the_device(self, device: str) -> None:
        leaf = self._leaf(device)
        seen = []
        leaf.register_hook(lambda grad: seen.append(grad.device.type))
        (leaf * 2).sum().backward()
        self.assertEqual(seen, [torch.device(device).type])

    def test_custom_function(self, device: str) -> None:
        leaf = self._leaf(device)
        _Doubled.apply(leaf).sum().backward()
        self.assert_agrees(leaf.grad, torch.full((6,), 2.0), device)

    @parametrize("reentrant", (False, True))
    def test_checkpoint(self, device: str, reentrant: bool) -> None:
        network, twin = _network(), None
        twin = copy.deepcopy(network).to(device)
        network(_batch()).sum().backward()
        batch = _batch().to(device).requires_grad_()
        checkpoint(twin, batch, use_reentrant=reentrant, preserve_rng_state=False).sum().backward()
        for there, here in zip(twin.parameters(), network.parameters()):
            self.assert_agrees(there.grad, here.grad, device)

    @parametrize("mode", ("no_grad", "inference_mode"))
    def test_grad_modes(self, device: str, mode: str) -> None:
        with getattr(torch, mode)():
            result = self._leaf(device) * 2
        self.assertFalse(result.requires_grad)
        self.assert_agrees(result, 2 * torch.linspace(-1, 1, 6), device)

    def test_in_place_is_noticed(self, device: str) -> None:
        leaf = self._leaf(device)
        middle = leaf * 1
        result = (middle * middle).sum()
        middle.add_(1)
        with self.assertRaisesRegex(RuntimeError, "modified by an inplace operation"):
            result.backward()

    def test_retained_graph(self, device: str) -> None:
        leaf = self._leaf(device)
        result = (leaf * 3).sum()
        result.backward(retain_graph=True)
        result.backward()
        self.assert_agrees(leaf.grad, torch.full((6,), 6.0), device)

    def test_retained_grad(self, device: str) -> None:
        middle = self._leaf(device) * 2
        middle.retain_grad()
        (middle * 5).sum().backward()
        self.assert_agrees(middle.grad, torch.full((6,), 5.0), device)

    def test_clips_norm(self, device: str) -> None:
        network = _network()
        twin = copy.deepcopy(network).to(device)
        for model, batch in ((network, _batch()), (twin, _batch().to(device))):
            model(batch).sum().backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        for there, here in zip(twin.parameters(), network.parameters()):
            self.assert_agrees(there.grad, here.grad, device)


class TestOptimizers(SuiteCase):
    @parametrize("optimizer", sorted(_OPTIMIZERS))
    def test_steps(self, device: str, optimizer: str) -> None:
        network = _network()
        twin = copy.deepcopy(network).to(device)
        for model, batch in ((network, _batch()), (twin, _batch().to(device))):
            stepper = _OPTIMIZERS[optimizer](list(model.parameters()))
            for _ in range(3):
                stepper.zero_grad()
                model(batch).pow(2).sum().backward()
                stepper.step()
        for (name, there), here in zip(twin.named_parameters(), network.parameters()):
            self.assert_agrees(there, here, device, name)

    def test_learns(self, device: str) -> None:
        network = _network().to(device)
        stepper = torch.optim.SGD(network.parameters(), lr=0.05, foreach=False)
        losses = []
        for _ in range(20):
            stepper.zero_grad()
            loss = torch.nn.functional.mse_loss(
                network(_batch().to(device)), torch.ones(3, 2, device=device)
            )
            loss.backward()
            stepper.step()
            losses.append(float(loss))
        self.assertLess(losses[-1], losses[0] / 2)


class TestAutocast(SuiteCase):
    @parametrize("dtype", (torch.bfloat16, torch.float16))
    def test_matmul(self, device: str, dtype: torch.dtype) -> None:
        kind = torch.device(device).type
        left, right = torch.ones(3, 4), torch.ones(4, 2)
        with torch.autocast(kind, dtype=dtype):
            actual = left.to(device) @ right.to(device)
        self.assertEqual(actual.dtype, dtype)
        self.assert_agrees(actual, (left @ right).to(dtype), device)

    def test_nothing_outside(self, device: str) -> None:
        with torch.autocast(torch.device(device).type, dtype=torch.bfloat16, enabled=False):
            result = torch.ones(2, 2, device=device) @ torch.ones(2, 2, device=device)
        self.assertEqual(result.dtype, torch.float32)


instantiate_device_type_tests(TestAutogradMechanics, globals())
instantiate_device_type_tests(TestOptimizers, globals())
instantiate_device_type_tests(TestAutocast, globals())
