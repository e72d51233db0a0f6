"""A workload that takes as much longer as CROSSCHECK_EVALUATE_SLOWER says: 1.1 is a tenth."""

import os

import torch

UNITS = (
    200  # an iteration takes some milliseconds, and a hundredth of it is whole units
)


class Products:
    items = 1
    unit = "samples"

    def setup(self) -> None:
        self.value = torch.linspace(-1.0, 1.0, 64 * 64).reshape(64, 64)
        self.units = round(UNITS * float(os.environ["CROSSCHECK_EVALUATE_SLOWER"]))

    def inference(self) -> torch.Tensor:
        result = self.value
        for _ in range(self.units):
            result = self.value @ self.value
        return result

    def state_dict(self) -> dict[str, torch.Tensor]:
        return {"value": self.value}

    def load_state_dict(self, state: dict[str, torch.Tensor]) -> None:
        self.value = state["value"]


def products() -> Products:
    return Products()
