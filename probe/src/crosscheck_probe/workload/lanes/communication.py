"""Collectives among the ranks: what they take, and whether each rank has the right numbers."""

from __future__ import annotations

import importlib.util
from typing import Any

import torch
import torch.distributed as dist

from crosscheck_probe.workload.base import NotRun, Settings, Workload, uniform


def make(name: str, settings: Settings) -> Workload:
    if name == "torchcomms_all_reduce":
        return TorchComms(name, settings)
    return Collective(name.replace("torchrun_", ""), settings)


class Collective(Workload):
    """Each rank gives a buffer of its own; the time includes filling it anew."""

    def __init__(self, name: str, settings: Settings) -> None:
        self.settings = settings
        self.name = name
        size = torch.empty((), dtype=settings.dtype).element_size()
        world = settings.world
        # Every rank has as much of it as the others.
        self.count = max(settings.shape["bytes"] // size // world, 1) * world
        self.items = self.count * size

    def setup(self) -> None:
        if hasattr(self, "buffer"):
            return
        device = self.settings.device
        self.source = self._part(self.settings.rank).to(device)
        self.buffer = torch.empty_like(self.source)
        if self.name == "all_gather":
            self.gathered = [torch.empty_like(self.source) for _ in range(self.settings.world)]
        if self.name == "reduce_scatter":
            self.share = torch.empty(
                self.count // self.settings.world, dtype=self.source.dtype, device=device
            )
        try:
            self.inference()
        except RuntimeError as error:
            if "support" not in str(error):
                raise
            raise NotRun(f"no {self.name} here: {str(error).splitlines()[0]}") from error

    def inference(self) -> Any:
        self.buffer.copy_(self.source)
        if self.name == "all_reduce":
            dist.all_reduce(self.buffer)
            return self.buffer
        if self.name == "broadcast":
            dist.broadcast(self.buffer, 0)
            return self.buffer
        if self.name == "all_gather":
            dist.all_gather(self.gathered, self.buffer)
            return self.gathered
        dist.reduce_scatter_tensor(self.share, self.buffer)
        return self.share

    def reference(self) -> Any:
        parts = [self._part(rank).double() for rank in range(self.settings.world)]
        if self.name == "broadcast":
            return parts[0], None
        if self.name == "all_gather":
            return parts, None
        total = torch.stack(parts).sum(0)
        if self.name == "reduce_scatter":
            return total.chunk(self.settings.world)[self.settings.rank], None
        return total, None

    def _part(self, rank: int) -> torch.Tensor:
        seed = self.settings.seed * 997 + rank + 1
        return uniform((self.count,), seed).to(self.settings.dtype)


class TorchComms(Collective):
    """The same reduction by torchcomms, on a communicator of its own."""

    def setup(self) -> None:
        if importlib.util.find_spec("torchcomms") is None:
            raise NotRun("torchcomms is not installed")
        if not hasattr(self, "comm"):
            import torchcomms

            backend = "gloo" if self.settings.device.type == "cpu" else "ncclx"
            store = dist.PrefixStore("torchcomms", dist.distributed_c10d._get_default_store())
            self.comm = torchcomms.new_comm(
                backend, self.settings.device, name="crosscheck", store=store
            )
            self.sum = torchcomms.ReduceOp.SUM
            self.name = "all_reduce"
        super().setup()

    def inference(self) -> Any:
        self.buffer.copy_(self.source)
        self.comm.all_reduce(self.buffer, self.sum, False)
        return self.buffer

    def close(self) -> None:
        if hasattr(self, "comm"):
            self.comm.finalize()
