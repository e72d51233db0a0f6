"""Saving and loading across devices, pickling and deep copies."""

from __future__ import annotations

import copy
import io
import os
import pickle
import tempfile
from typing import Any

import torch
from crosscheck_suite import SuiteCase
from torch.testing._internal.common_device_type import dtypes, instantiate_device_type_tests
from torch.testing._internal.common_utils import parametrize

_ALL = (
    torch.float32,
    torch.float16,
    torch.bfloat16,
    torch.int64,
    torch.int8,
    torch.bool,
    torch.complex64,
)


def _values(dtype: torch.dtype) -> torch.Tensor:
    return torch.tensor([[0, 1, 2], [3, 0, 5]]).to(dtype)


def _saved(value: Any, **how: Any) -> io.BytesIO:
    buffer = io.BytesIO()
    torch.save(value, buffer, **how)
    buffer.seek(0)
    return buffer


def _model() -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))


class TestSaveLoad(SuiteCase):
    @dtypes(*_ALL)
    @parametrize("to", ("same", "cpu", "device"))
    def test_tensor(self, device: str, dtype: torch.dtype, to: str) -> None:
        saved = _saved(_values(dtype).to("cpu" if to == "device" else device))
        where = {"same": None, "cpu": "cpu", "device": device}[to]
        loaded = torch.load(saved, map_location=where, weights_only=True)
        self.assert_agrees(loaded, _values(dtype), "cpu" if to == "cpu" else device)

    @dtypes(*_ALL)
    def test_pickle(self, device: str, dtype: torch.dtype) -> None:
        loaded = pickle.loads(pickle.dumps(_values(dtype).to(device)))
        self.assert_agrees(loaded, _values(dtype), device)

    @dtypes(*_ALL)
    def test_deepcopy(self, device: str, dtype: torch.dtype) -> None:
        tensor = _values(dtype).to(device)
        copied = copy.deepcopy(tensor)
        tensor.zero_()
        self.assert_agrees(copied, _values(dtype), device)

    @parametrize("legacy", (False, True))
    def test_views_share_storage(self, device: str, legacy: bool) -> None:
        base = torch.arange(12.0).to(device)
        saved = _saved([base, base[3:6]], _use_new_zipfile_serialization=not legacy)
        whole, part = torch.load(saved, weights_only=True)
        whole.zero_()
        self.assert_agrees(part, torch.zeros(3), device)

    def test_strides(self, device: str) -> None:
        tensor = torch.arange(6.0).reshape(2, 3).t().to(device)
        loaded = torch.load(_saved(tensor), weights_only=True)
        self.assertEqual(loaded.stride(), tensor.stride())
        self.assert_agrees(loaded, torch.arange(6.0).reshape(2, 3).t(), device)

    def test_parameter(self, device: str) -> None:
        loaded = torch.load(_saved(torch.nn.Parameter(torch.ones(3, device=device))))
        self.assertIsInstance(loaded, torch.nn.Parameter)
        self.assertTrue(loaded.requires_grad)
        self.assert_agrees(loaded, torch.ones(3), device)

    @parametrize("to", ("same", "cpu"))
    def test_state_dict(self, device: str, to: str) -> None:
        model = _model()
        saved = _saved(copy.deepcopy(model).to(device).state_dict())
        state = torch.load(saved, map_location="cpu" if to == "cpu" else None, weights_only=True)
        for name, expected in model.state_dict().items():
            self.assert_agrees(state[name], expected, "cpu" if to == "cpu" else device, name)
        fresh = _model().to(device)
        fresh.load_state_dict(state)
        sample = torch.arange(3.0)
        self.assert_agrees(fresh(sample.to(device)), model(sample), device)

    def test_file(self, device: str) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "tensor.pt")
            torch.save(torch.arange(5.0).to(device), path)
            self.assert_agrees(torch.load(path, weights_only=True), torch.arange(5.0), device)

    def test_memory_mapped(self, device: str) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "tensor.pt")
            torch.save(torch.arange(5.0), path)
            loaded = torch.load(path, mmap=True, weights_only=True).to(device)
            self.assert_agrees(loaded, torch.arange(5.0), device)

    def test_storage(self, device: str) -> None:
        storage = torch.arange(4.0).to(device).untyped_storage()
        self.assertEqual(storage.device.type, torch.device(device).type)
        self.assertEqual(storage.cpu().tolist(), torch.arange(4.0).untyped_storage().tolist())

    def test_optimizer_state(self, device: str) -> None:
        parameter = torch.nn.Parameter(torch.ones(3, device=device))
        optimizer = torch.optim.SGD([parameter], lr=0.1, momentum=0.9)
        parameter.grad = torch.ones(3, device=device)
        optimizer.step()
        state = torch.load(_saved(optimizer.state_dict()), weights_only=True)
        other = torch.optim.SGD([parameter], lr=0.1, momentum=0.9)
        other.load_state_dict(state)
        buffer = other.state[parameter]["momentum_buffer"]
        self.assert_agrees(buffer, torch.ones(3), device)


instantiate_device_type_tests(TestSaveLoad, globals())
