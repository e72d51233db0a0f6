"""Saving and loading as the work itself: of a model, and of training with its optimizer."""

from __future__ import annotations

import copy
import tempfile
from typing import Any

import torch

from crosscheck_probe.workload.base import Settings, Workload
from crosscheck_probe.workload.measure import leaves
from crosscheck_probe.workload.model import MlpWorkload


def make(name: str, settings: Settings) -> Workload:
    return RoundTrip(settings)


class RoundTrip(MlpWorkload):
    """Each iteration writes the state to a file and loads it; training does a step before.

    The output is the model's state as loaded, so that a bit lost on the way is a difference.
    """

    def setup(self) -> None:
        super().setup()
        if not hasattr(self, "_folder"):
            self._folder = tempfile.TemporaryDirectory(prefix="crosscheck-checkpoint-")
            tensors = (leaf for _, leaf in leaves(self.state_dict()))
            self.items = sum(
                t.numel() * t.element_size() for t in tensors if isinstance(t, torch.Tensor)
            )

    def inference(self) -> Any:
        return self._there_and_back()

    def step(self) -> Any:
        super().step()
        return self._there_and_back()

    def reference(self) -> Any:
        return None

    def close(self) -> None:
        if hasattr(self, "_folder"):
            self._folder.cleanup()

    def _there_and_back(self) -> Any:
        assert self.model is not None
        self.save(self._folder.name)
        self.load(self._folder.name)
        return copy.deepcopy(self.model.state_dict())
