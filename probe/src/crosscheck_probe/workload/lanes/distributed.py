"""Training on several ranks: DDP and FSDP2, with their checkpoints."""

from __future__ import annotations

import os
from typing import Any

import torch
import torch.distributed as dist

from crosscheck_probe.workload.base import NotRun, Settings, Workload
from crosscheck_probe.workload.checks import state_digest
from crosscheck_probe.workload.model import TransformerWorkload

_WHOLE = "checkpoint.pt"
_SHARDED = "dcp"


def make(name: str, settings: Settings) -> Workload:
    return {"ddp": Ddp, "fsdp2": Fsdp2}[name](settings)


class Trained(TransformerWorkload):
    """Each rank has its own part of the batch; gradients are those of the whole.

    A checkpoint is written twice: whole, by torch.save on rank 0, and by all ranks with DCP.
    """

    is_sharded = False

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self.items = (self.items or 0) * settings.world

    def save(self, folder: str) -> None:
        model, optimizer = self._gathered(full=True)
        if self.settings.rank == 0:
            state = {"model": model, "optimizer": optimizer}
            torch.save({"state": state, "rng": torch.get_rng_state()}, self._file(folder))
        if _has_dcp():
            import torch.distributed.checkpoint as dcp

            model, optimizer = self._gathered(full=False)
            dcp.save(
                {"model": model, "optimizer": optimizer},
                checkpoint_id=os.path.join(folder, _SHARDED),
            )

    def load(self, folder: str) -> None:
        found = torch.load(self._file(folder), map_location="cpu")
        self._set(found["state"]["model"], found["state"]["optimizer"], full=True)
        torch.set_rng_state(found["rng"])
        sharded = os.path.join(folder, _SHARDED)
        if not _has_dcp() or not os.path.isdir(sharded):
            return
        import torch.distributed.checkpoint as dcp

        whole = state_digest(self)
        self.setup()
        model, optimizer = self._gathered(full=False)
        state = {"model": model, "optimizer": optimizer}
        dcp.load(state, checkpoint_id=sharded)
        self._set(state["model"], state["optimizer"], full=False)
        if state_digest(self) != whole:
            raise ValueError("what DCP loads is not what torch.load does")

    def _gathered(self, *, full: bool) -> tuple[Any, Any]:
        assert self.model is not None
        if self._is_plain(full):
            return self.model.state_dict(), self.optimizer.state_dict()
        from torch.distributed.checkpoint import state_dict as state

        options = state.StateDictOptions(full_state_dict=full)
        return state.get_state_dict(self.model, self.optimizer, options=options)

    def _set(self, model: Any, optimizer: Any, *, full: bool) -> None:
        assert self.model is not None
        if self._is_plain(full):
            self.model.load_state_dict(model)
            self.optimizer.load_state_dict(optimizer)
            return
        from torch.distributed.checkpoint import state_dict as state

        state.set_state_dict(
            self.model,
            self.optimizer,
            model_state_dict=model,
            optim_state_dict=optimizer,
            options=state.StateDictOptions(full_state_dict=full),
        )

    def _is_plain(self, full: bool) -> bool:
        """What each rank has whole is kept as all versions keep it."""
        return full and not self.is_sharded

    def _file(self, folder: str) -> str:
        return os.path.join(folder, _WHOLE)


class Ddp(Trained):
    def wrap(self, model: torch.nn.Module) -> Any:
        return torch.nn.parallel.DistributedDataParallel(model)


class Fsdp2(Trained):
    is_sharded = True

    def wrap(self, model: torch.nn.Module) -> Any:
        try:
            from torch.distributed.device_mesh import init_device_mesh
            from torch.distributed.fsdp import fully_shard
        except ImportError:
            raise NotRun("this torch has no fully_shard") from None
        mesh = init_device_mesh(self.settings.device.type, (dist.get_world_size(),))
        for block in model.children():
            fully_shard(block, mesh=mesh)
        return fully_shard(model, mesh=mesh)


def _has_dcp() -> bool:
    """Whether this torch has the way to checkpoint that later ones kept."""
    try:
        from torch.distributed.checkpoint import load, save, state_dict
    except ImportError:
        return False
    return bool(load and save and state_dict)
