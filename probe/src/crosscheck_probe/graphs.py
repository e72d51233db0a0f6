"""The operators of compiled graphs, from the records that TORCH_TRACE writes to a file.

A handler on torch's own logger gets the same records without a file. Under a TorchDispatchMode
nothing is compiled, and what runs of a compiled graph are kernels of the compiler's making: so
tests that compile are run once more, in processes of their own, for this.
"""

from __future__ import annotations

import logging
import os
import re
import sys
from collections import Counter
from contextlib import nullcontext
from typing import Any

_GRAPHS = {
    "aot_forward_graph": "forward",
    "aot_backward_graph": "backward",
    "aot_inference_graph": "inference",
}
_CALL = re.compile(r"\btorch\.ops\.(\w+)\.(\w+)\.(\w+)\(")


class GraphRecorder(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self._graphs: dict[str, Counter[str]] = {}
        # Read when the compiler is imported: a warm cache would hide graphs.
        os.environ["TORCHINDUCTOR_FORCE_DISABLE_CACHES"] = "1"
        config = sys.modules.get("torch._inductor.config")
        if config is not None:
            config.force_disable_caches = True  # type: ignore[attr-defined]
        logging.getLogger("torch.__trace").addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        metadata: dict[str, Any] = getattr(record, "metadata", None) or {}
        payload = getattr(record, "payload", None)
        for kind, what in _GRAPHS.items():
            if kind in metadata and isinstance(payload, str):
                frame = f"{metadata.get('frame_id', '?')}/{metadata.get('frame_compile_id', '?')}"
                seen = self._graphs.setdefault(f"{frame} {what}", Counter())
                seen.update(operators_in(payload))

    def recording(self) -> Any:
        # What an earlier test compiled would not be compiled again.
        dynamo = sys.modules.get("torch._dynamo")
        if dynamo is not None:
            dynamo.reset()  # type: ignore[attr-defined]
        return nullcontext()

    def enter(self, phase: int) -> None:
        pass

    def take(self) -> dict[str, dict[str, int]]:
        return {}

    def graphs(self) -> list[dict[str, Any]]:
        taken = [
            {"graph": name, "operators": dict(sorted(operators.items()))}
            for name, operators in sorted(self._graphs.items())
        ]
        self._graphs.clear()
        return taken


def operators_in(graph: str) -> Counter[str]:
    """Counts the calls of a graph that is printed as Python."""
    return Counter(
        f"{namespace}::{name}" + ("" if overload == "default" else f".{overload}")
        for namespace, name, overload in _CALL.findall(graph)
    )
