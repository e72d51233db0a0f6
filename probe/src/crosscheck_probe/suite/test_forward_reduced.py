"""Every operator of the OpInfo database against the CPU: reduced precision."""

from __future__ import annotations

from typing import Any

import torch
from crosscheck_operators import OperatorCase, comparable_ops
from torch.testing._internal.common_device_type import instantiate_device_type_tests, ops


class TestForwardReduced(OperatorCase):
    @ops(comparable_ops(), allowed_dtypes=(torch.bfloat16,))
    def test_forward(self, device: str, dtype: torch.dtype, op: Any) -> None:
        self.assert_op_agrees(lambda s: op(s.input, *s.args, **s.kwargs), op, dtype, device)


instantiate_device_type_tests(TestForwardReduced, globals())
