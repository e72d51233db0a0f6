"""Every operator of the OpInfo database against the CPU: integers and truth values."""

from __future__ import annotations

from typing import Any

import torch
from crosscheck_operators import OperatorCase, comparable_ops
from torch.testing._internal.common_device_type import instantiate_device_type_tests, ops


class TestForwardInteger(OperatorCase):
    @ops(comparable_ops(), allowed_dtypes=(torch.int64, torch.bool))
    def test_forward(self, device: str, dtype: torch.dtype, op: Any) -> None:
        self.assert_op_agrees(lambda s: op(s.input, *s.args, **s.kwargs), op, dtype, device)


instantiate_device_type_tests(TestForwardInteger, globals())
