"""A model with its optimizer as a workload: what most lanes are made of."""

from __future__ import annotations

import contextlib
from typing import Any

import torch

from crosscheck_probe.request import BadRequest
from crosscheck_probe.workload.base import Settings, Workload, fill, gradients_of, uniform

_METRIC_STEPS = 5


class ModelWorkload(Workload):
    """Runs what `build` makes on what `batch` gives; AdamW where it trains.

    A subclass overrides `build`, `batch` and `loss`; `wrap` puts the built model into what is run.
    """

    compile_with: dict[str, Any] | None = None
    # Runs under autocast to bfloat16.
    mixed = False

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.compiled = self.compile_with is not None
        self.model: torch.nn.Module | None = None
        self._losses: list[torch.Tensor] = []

    def build(self) -> torch.nn.Module:
        raise NotImplementedError

    def batch(self, part: int) -> tuple[torch.Tensor, ...]:
        """Returns the inputs, then the target, of one rank's part, in float32 on the host."""
        raise NotImplementedError

    def loss(self, output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.mse_loss(output, target)

    def compute(self, model: Any, data: list[torch.Tensor]) -> torch.Tensor:
        """Returns the loss of `model` on what `batch` gave."""
        return self.loss(model(*data[:-1]), data[-1])

    def precision(self) -> Any:
        if not self.mixed:
            return contextlib.nullcontext()
        return torch.autocast(self.settings.device.type, dtype=torch.bfloat16)

    def wrap(self, model: torch.nn.Module) -> Any:
        if self.compile_with is None:
            return model
        return torch.compile(model, **self.compile_with)

    def setup(self) -> None:
        settings = self.settings
        if self.model is None:
            self.model = self.fresh(self.build()).to(settings.device)
            self.model.train(settings.training)
            self.run = self.wrap(self.model)
            self._initial = {k: v.detach().clone() for k, v in self.model.state_dict().items()}
            self.data = [one.to(settings.device) for one in self._cast(self.batch(settings.rank))]
        else:
            self.model.load_state_dict(self._initial)
        if settings.training:
            self.model.zero_grad(set_to_none=True)
            self.optimizer = self.make_optimizer()
        self._losses = []

    def make_optimizer(self) -> torch.optim.Optimizer:
        assert self.model is not None
        # Squares of gradients vanish in half precision; the usual epsilon does so too.
        epsilon = 1e-4 if self.settings.dtype == torch.float16 else 1e-8
        return torch.optim.AdamW(self.model.parameters(), lr=1e-3, weight_decay=0.01, eps=epsilon)

    def inference(self) -> Any:
        with torch.no_grad(), self.precision():
            return self.run(*self.data[:-1])

    def step(self) -> Any:
        self.optimizer.zero_grad(set_to_none=True)
        with self.precision():
            loss = self.compute(self.run, self.data)
        loss.backward()
        self.optimizer.step()
        if len(self._losses) < _METRIC_STEPS:
            self._losses.append(loss.detach())
        return loss

    def gradients(self) -> dict[str, Any] | None:
        if not self.settings.training or self.model is None:
            return None
        return gradients_of(self.model)

    def reference(self) -> tuple[Any, dict[str, Any] | None]:
        model = self.fresh(self.build()).double()
        if not self.settings.training:
            with torch.no_grad():
                return model(*self.reference_data(self.settings.rank)[:-1]), None
        own = None
        for part in range(self.settings.world):
            loss = self.compute(model, self.reference_data(part))
            (loss / self.settings.world).backward()
            if part == self.settings.rank:
                own = loss.detach()
        return own, gradients_of(model)

    def reference_data(self, part: int) -> list[torch.Tensor]:
        data = self._cast(self.batch(part))
        return [one.double() if one.is_floating_point() else one for one in data]

    def metric(self) -> dict[str, Any] | None:
        if len(self._losses) < _METRIC_STEPS:
            return None
        value = float(self._losses[-1])
        return {
            "name": f"loss_after_{_METRIC_STEPS}_steps",
            "value": value,
            "higher_is_better": False,
        }

    def state_dict(self) -> dict[str, Any] | None:
        if self.model is None:
            return None
        state: dict[str, Any] = {"model": self.model.state_dict()}
        if self.settings.training:
            state["optimizer"] = self.optimizer.state_dict()
        return state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        assert self.model is not None
        self.model.load_state_dict(state["model"])
        if self.settings.training:
            self.optimizer.load_state_dict(state["optimizer"])

    def fresh(self, model: torch.nn.Module) -> torch.nn.Module:
        """Gives a built model its first weights, in the launch's precision, on the host."""
        return fill(model, self.settings.seed).to(self.settings.dtype)

    def _cast(self, values: tuple[torch.Tensor, ...]) -> list[torch.Tensor]:
        dtype = self.settings.dtype
        return [one.to(dtype) if one.is_floating_point() else one for one in values]


def mlp(width: int, depth: int) -> torch.nn.Module:
    layers: list[torch.nn.Module] = []
    for _ in range(depth):
        layers += [torch.nn.Linear(width, width), torch.nn.GELU()]
    return torch.nn.Sequential(*layers, torch.nn.Linear(width, width))


class Block(torch.nn.Module):
    """One pre-norm transformer block of plain operations, so that all versions have it."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1 = torch.nn.LayerNorm(width)
        self.norm2 = torch.nn.LayerNorm(width)
        self.qkv = torch.nn.Linear(width, 3 * width)
        self.out = torch.nn.Linear(width, width)
        self.up = torch.nn.Linear(width, 4 * width)
        self.down = torch.nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, sequence, width = x.shape
        split = self.qkv(self.norm1(x)).view(batch, sequence, 3, self.heads, -1)
        q, k, v = split.permute(2, 0, 3, 1, 4)
        scores = (q @ k.transpose(-2, -1)) * (width // self.heads) ** -0.5
        mixed = (scores.softmax(-1) @ v).transpose(1, 2).reshape(batch, sequence, width)
        x = x + self.out(mixed)
        return x + self.down(torch.nn.functional.gelu(self.up(self.norm2(x))))


class MlpWorkload(ModelWorkload):
    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self.items = settings.shape["batch"]

    def build(self) -> torch.nn.Module:
        return mlp(self.settings.shape["width"], self.settings.shape["depth"])

    def batch(self, part: int) -> tuple[torch.Tensor, ...]:
        shape = (self.settings.shape["batch"], self.settings.shape["width"])
        return batch_of(shape, self.settings.seed, part)


class TransformerWorkload(ModelWorkload):
    unit = "tokens"

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        shape = settings.shape
        if shape["width"] % shape["heads"]:
            raise BadRequest('"shape.width" must be a multiple of "shape.heads"')
        self.items = shape["batch"] * shape["sequence"]

    def build(self) -> torch.nn.Module:
        shape = self.settings.shape
        blocks = [Block(shape["width"], shape["heads"]) for _ in range(shape["layers"])]
        return torch.nn.Sequential(*blocks)

    def batch(self, part: int) -> tuple[torch.Tensor, ...]:
        shape = self.settings.shape
        extents = (shape["batch"], shape["sequence"], shape["width"])
        return batch_of(extents, self.settings.seed, part)


def batch_of(shape: tuple[int, ...], seed: int, part: int) -> tuple[torch.Tensor, ...]:
    """Returns an input and a target of `shape` for one rank's part of the batch."""
    first = (seed * 7919 + part) * 2 + 1_000_003
    return uniform(shape, first), uniform(shape, first + 1)
