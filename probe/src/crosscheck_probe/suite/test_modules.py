"""Every module of the ModuleInfo database: results, gradients and movement between devices."""

from __future__ import annotations

import copy
import itertools
from typing import Any

import torch
from crosscheck_suite import SuiteCase, cotangents_like, differentiable, moved, quick
from torch.testing._internal.common_device_type import instantiate_device_type_tests
from torch.testing._internal.common_modules import TrainEvalMode, module_db, modules

_SAMPLES = 4
_QUICK = frozenset(
    """nn.AvgPool2d nn.BatchNorm2d nn.Conv1d nn.Conv2d nn.CrossEntropyLoss nn.ELU nn.Embedding
    nn.GELU nn.LayerNorm nn.Linear nn.LSTM nn.MaxPool2d nn.MSELoss nn.ReLU nn.SiLU nn.Sigmoid
    nn.Softmax nn.TransformerEncoderLayer""".split()
)
# They draw random numbers in training, which two devices need not share, or as they first run.
_RANDOM = ("Dropout", "RReLU", "FractionalMaxPool", "Transformer", "MultiheadAttention", "Lazy")


def _without(*parts: str) -> list[Any]:
    return [m for m in module_db if not any(part in m.module_cls.__name__ for part in parts)]


class TestModules(SuiteCase):
    def _cases(self, info: Any, dtype: torch.dtype, training: bool, grad: bool) -> Any:
        made = info.module_inputs_func(
            info, device="cpu", dtype=dtype, requires_grad=grad, training=training
        )
        for case in itertools.islice(made, _SAMPLES):
            if case.forward_input is None:
                continue
            arguments = case.constructor_input
            module = info.module_cls(*arguments.args, **arguments.kwargs).to(dtype)
            module.train(training)
            yield module, case.forward_input.args, case.forward_input.kwargs

    @quick(lambda module_info, training: module_info.name in _QUICK and training)
    @modules(_without(*_RANDOM), allowed_dtypes=(torch.float32,))
    def test_forward(
        self, device: str, dtype: torch.dtype, module_info: Any, training: bool
    ) -> None:
        for module, args, kwargs in self._cases(module_info, dtype, training, grad=False):
            twin = copy.deepcopy(module).to(device)
            on_device = moved([list(args), kwargs], device)
            with torch.no_grad():
                expected = module(*args, **kwargs)
                actual = twin(*on_device[0], **on_device[1])
            self.assert_agrees(actual, expected, device)

    @modules(
        _without(*_RANDOM),
        allowed_dtypes=(torch.float32,),
        train_eval_mode=TrainEvalMode.train_only,
    )
    def test_backward(
        self, device: str, dtype: torch.dtype, module_info: Any, training: bool
    ) -> None:
        for module, args, kwargs in self._cases(module_info, dtype, training, grad=True):
            twin = copy.deepcopy(module).to(device)
            on_device = moved([list(args), kwargs], device)
            expected = differentiable(module(*args, **kwargs))
            if not expected:
                continue
            torch.autograd.backward(expected, cotangents_like(expected))
            actual = differentiable(twin(*on_device[0], **on_device[1]))
            torch.autograd.backward(actual, [c.to(device) for c in cotangents_like(expected)])
            for (name, there), here in zip(twin.named_parameters(), module.parameters()):
                self.assertEqual(there.grad is None, here.grad is None, msg=name)
                if here.grad is not None:
                    self.assert_agrees(there.grad, here.grad, device, f"gradient of {name}")

    @modules(
        _without("Lazy"), allowed_dtypes=(torch.float32,), train_eval_mode=TrainEvalMode.eval_only
    )
    def test_state_moves(
        self, device: str, dtype: torch.dtype, module_info: Any, training: bool
    ) -> None:
        for module, _, _ in self._cases(module_info, dtype, training, grad=False):
            before = {k: v.clone() for k, v in module.state_dict().items() if torch.is_tensor(v)}
            module.to(device)
            for name, tensor in module.state_dict().items():
                if torch.is_tensor(tensor):
                    self.assert_agrees(tensor, before[name], device, name)
            module.to("cpu")
            for name, tensor in module.state_dict().items():
                if torch.is_tensor(tensor):
                    self.assertEqual(tensor, before[name])


instantiate_device_type_tests(TestModules, globals())
