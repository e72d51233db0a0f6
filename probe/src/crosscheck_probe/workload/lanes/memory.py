"""The last layer of a language model and its loss: fused with options, fused without, in two."""

from __future__ import annotations

from typing import Any

import torch

from crosscheck_probe.workload.base import NotRun, Settings, Workload, integers, uniform
from crosscheck_probe.workload.model import ModelWorkload

_LOGIT_ROWS = 16


def make(name: str, settings: Settings) -> Workload:
    kind, mixed = (name[: -len("_mixed")], True) if name.endswith("_mixed") else (name, False)
    return Head(kind, mixed, settings)


class TwoSteps(torch.nn.Module):
    def __init__(self, features: int, classes: int) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(features, classes, bias=False)

    def forward(self, x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.cross_entropy(self.linear(x), target)


class Head(ModelWorkload):
    """Where it infers, the output also has the logits of the first tokens."""

    def __init__(self, kind: str, mixed: bool, settings: Settings) -> None:
        super().__init__(settings)
        self.kind = kind
        self.mixed = mixed
        self.items = settings.shape["tokens"]

    def build(self) -> torch.nn.Module:
        features, classes = self.settings.shape["features"], self.settings.shape["classes"]
        if self.kind == "linear_then_cross_entropy":
            return TwoSteps(features, classes)
        if not hasattr(torch.nn, "LinearCrossEntropyLoss"):
            raise NotRun("this torch has no LinearCrossEntropyLoss")
        has_options = self.kind == "linear_cross_entropy"
        options = torch.nn.LinearCrossEntropyOptions() if has_options else None
        return torch.nn.LinearCrossEntropyLoss(features, classes, options=options)

    def build_reference(self) -> torch.nn.Module:
        return TwoSteps(self.settings.shape["features"], self.settings.shape["classes"])

    def batch(self, part: int) -> tuple[torch.Tensor, ...]:
        shape, seed = self.settings.shape, self.settings.seed * 31 + part + 5
        tokens = uniform((shape["tokens"], shape["features"]), seed, 2.0)
        return tokens, integers((shape["tokens"],), seed + 1, shape["classes"])

    def setup(self) -> None:
        super().setup()
        self.data[0].grad = None
        self.data[0].requires_grad_(self.settings.training)

    def compute(self, model: Any, data: list[torch.Tensor]) -> torch.Tensor:
        return model(*data)

    def inference(self) -> Any:
        assert self.model is not None
        with torch.no_grad(), self.precision():
            return self._both(self.run, self.model, self.data)

    def step(self) -> Any:
        self.data[0].grad = None
        return super().step()

    def gradients(self) -> dict[str, Any] | None:
        return {**(super().gradients() or {}), "input": self.data[0].grad}

    def reference(self) -> tuple[Any, dict[str, Any] | None]:
        model, data = self.fresh(self.build_reference()).double(), self.reference_data(0)
        if not self.settings.training:
            with torch.no_grad():
                return self._both(model, model, data), None
        data[0].requires_grad_()
        loss = model(*data)
        loss.backward()
        return loss.detach(), {"linear.weight": model.linear.weight.grad, "input": data[0].grad}

    def _both(self, run: Any, model: Any, data: list[torch.Tensor]) -> dict[str, Any]:
        return {"loss": self.compute(run, data), "logits": model.linear(data[0][:_LOGIT_ROWS])}
