"""What the probe says of a device's operators: the dispatcher's tables, callees, samples."""

from __future__ import annotations

import json
from pathlib import Path

from conftest import Answer, ask

REFDEV = str(Path(__file__).resolve().parents[2] / "build" / "refdev")
DEVICE = {"name": "refdev", "setup": {"module": "refdev", "path": REFDEV}}

TABLE = """name: aten::x
CPU: registered at /b/RegisterCPU.cpp:1 [kernel]
PrivateUse1: registered at /d/kernels.cc:7 [kernel]
AutogradPrivateUse1: registered at /a.cpp:2 [autograd kernel]
Meta: registered at /b/C.cpp:1 [default backend kernel]
XPU: fallthrough registered at /b/F.cpp:1 [backend fallback]
HPU: registered at /b/M.cpp:3 [math kernel]
"""


def test_the_tag_of_the_devices_own_line_says_which_kernel_it_is() -> None:
    from crosscheck_probe.support import kernel_of

    assert kernel_of(TABLE, "PrivateUse1") == ("kernel", "/d/kernels.cc:7")
    assert kernel_of(TABLE, "Meta") == ("default", "/b/C.cpp:1")
    assert kernel_of(TABLE, "XPU") == ("fallback", "/b/F.cpp:1")
    assert kernel_of(TABLE, "HPU") == ("math", "/b/M.cpp:3")
    assert kernel_of(TABLE, "MPS") == ("none", "")


def test_generated_operators_are_read_off_torchgens_list() -> None:
    from crosscheck_probe.support import generated_from

    text = (
        "- func: sub.out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)\n  structured: True\n"
        "- func: sub.Tensor(Tensor self) -> Tensor\n  structured_delegate: sub.out\n"
        "- func: sub_.Tensor(Tensor(a!) self) -> Tensor(a!)\n  structured_delegate: sub.out\n"
        "- func: rot(Tensor self) -> Tensor\n  dispatch:\n    CPU: rot\n"
        "  autogen: rot.out, rot.functional\n"
    )
    assert generated_from(text) == {
        "aten::sub.Tensor": ("structured_delegate", ("aten::sub.out", "aten::empty_strided")),
        "aten::sub_.Tensor": ("structured_delegate", ("aten::sub.out",)),
        "aten::rot.out": ("autogen", ("aten::rot", "aten::copy_")),
        "aten::rot.functional": ("autogen", ("aten::rot", "aten::clone")),
    }


def described(operators: list[str], path: Path, listed: list[str]) -> Answer:
    path.write_text(json.dumps({"operators": listed}), encoding="utf-8")
    return ask(
        "support",
        {"device": DEVICE, "operators": operators},
        {"REFDEV_CONFIG": str(path)},
    )


def test_callees_are_seen_as_they_run_on_a_device_without_kernels(tmp_path: Path) -> None:
    answer = described(
        ["aten::square", "aten::add.Tensor", "aten::relu6"],
        tmp_path / "c.json",
        ["aten::add.out", "aten::relu"],
    )
    assert answer.code == 0, answer.output
    assert [line["ev"] for line in answer.lines[-1:]] == ["end"]
    operators = {line["op"]: line for line in answer.of("operator")}
    assert operators["aten::add.out"]["kernel"] == "kernel"
    assert "fallback.cc" in operators["aten::add.out"]["registered"]
    assert operators["aten::add.Tensor"]["kernel"] == "default"
    assert operators["aten::square"]["kernel"] == "math"
    assert operators["aten::mm.out"]["kernel"] == "none"
    callees = {line["op"]: line["callees"] for line in answer.of("callees")}
    assert callees["aten::square"] == ["aten::pow.Tensor_Scalar"]
    assert "aten::add.out" in callees["aten::add.Tensor"]
    assert callees["aten::relu6"] == ["aten::hardtanh"]
    units = {line["unit"]: line["dtypes"] for line in answer.of("unit")}
    assert "float32" in units["add"]


def test_samples_run_on_the_device_and_say_what_is_missing(tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    path.write_text(
        json.dumps(
            {"operators": ["aten::add.out", "aten::mul.out"], "faults": {"aten::mul.out": "raise"}}
        ),
        encoding="utf-8",
    )
    units = [{"unit": name, "dtypes": ["float32"]} for name in ("add", "mul", "exp", "no such")]
    answer = ask(
        "samples",
        {"device": DEVICE, "units": units, "samples": 2},
        {"REFDEV_CONFIG": str(path)},
    )
    assert answer.code == 0, answer.output
    results = {line["unit"]: line["results"] for line in answer.of("sampled")}
    assert results["add"] == [{"op": "aten::add.Tensor", "ran": 2, "of": 2, "outcome": "runs"}]
    assert results["mul"][0]["outcome"] == "error"
    assert "injected" in results["mul"][0]["message"]
    assert results["exp"][0]["outcome"] == "missing"
    assert results["exp"][0]["missing"] == "aten::exp.out"
    assert results["no such"] == []
    assert [line["operators"] for line in answer.of("sampling")[:2]] == [[], ["aten::add.Tensor"]]


def test_a_request_that_is_none_is_said_to_be(tmp_path: Path) -> None:
    answer = ask("samples", {"device": {"name": "cpu"}, "units": 3})
    assert answer.code == 2
    assert "units" in answer.of("request_error")[0]["message"]
