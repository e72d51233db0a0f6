"""A process's place among the ranks of a launch; alone by default."""

from __future__ import annotations

from typing import Any


class Seat:
    """What the measurement asks of the others between iterations. Alone there is nobody to ask."""

    rank = 0
    world = 1
    # A folder that all ranks see, None where there is one rank.
    shared_folder: str | None = None

    def join(self) -> None:
        """Meets the other ranks, once torch and the device are there."""

    def ready(self, workload: Any) -> None:
        """Told once the workload is set up."""

    def first_done(self, workload: Any) -> None:
        """Told after the first run."""

    def agree(self, stop: bool) -> tuple[bool, float]:
        """Returns whether any rank wants to stop, and the seconds waited for the others."""
        return stop, 0.0

    def before(self, iteration: int) -> None:
        """Told before each iteration that counts."""

    def failed(self) -> None:
        """Told as soon as the launch has failed."""

    def leave(self) -> None:
        """Parts from the others, whatever happened."""
