from __future__ import annotations

import enum
import functools
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import PROBE

from crosscheck_probe import facts
from crosscheck_probe.marks import quick


class Mode(enum.Enum):
    train = 1


class OpInfo:
    name = "linalg.norm"
    full_name = "linalg.norm.subgradients_at_zero"


class BinaryUfuncInfo(OpInfo):
    full_name = "div.floor_rounding"


class ModuleInfo:
    name = "nn.Linear"
    formatted_name = "nn_Linear"


def generated(test: Any, **parameters: Any) -> Any:
    """Wraps `test` the way torch's machinery does."""

    @functools.wraps(test)
    def instantiated_test(self: Any, param_kwargs: Any = parameters) -> None:
        test(self, **param_kwargs)

    return instantiated_test


class Written:
    __test__ = False

    def test_sum(self) -> None: ...


class DeviceTypeTestBase:
    pass


class CPUTestBase(DeviceTypeTestBase):
    device_type = "cpu"


class TestGeneric:
    __test__ = False


def device_class() -> type:
    return type("TestGenericCPU", (CPUTestBase, TestGeneric), {})


@pytest.mark.parametrize(
    ("value", "text", "whole"),
    [
        (3, "3", True),
        (True, "True", True),
        (None, "None", True),
        (Mode.train, "train", True),
        ((1, "a"), "1,a", True),
        ({"k": 2}, "k=2", True),
        ({"b", "a"}, "a,b", True),
        (OpInfo(), "linalg.norm.subgradients_at_zero", True),
        (ModuleInfo(), "nn_Linear", True),
        (device_class, "device_class", True),
        (lambda: 0, "<lambda>", False),
        (object(), "object", False),
        ([object()], "object", False),
    ],
)
def test_describe(value: Any, text: str, whole: bool) -> None:
    described, complete = facts.describe(value)
    assert described.endswith(text) if "<" in text else described == text
    assert complete == whole


def test_parameters_come_from_the_function() -> None:
    assert facts.held_parameters(generated(Written.test_sum, device="cpu")) == {"device": "cpu"}
    assert facts.held_parameters(Written.test_sum) == {}
    assert facts.held_parameters(len) == {}

    def with_other_default(self: Any, x: int = 3) -> None: ...

    assert facts.held_parameters(with_other_default) == {}


def test_device_class_is_named_as_written() -> None:
    assert facts.generic_class(device_class()) == "TestGeneric"
    assert facts.generic_class(TestGeneric) == "TestGeneric"
    assert facts.generic_class(None) == ""


def test_device_class_of_old_torch_is_named_as_written() -> None:
    def made(name: str, base: str) -> type:
        return type(name, (CPUTestBase, type(base, (), {})), {})

    assert facts.generic_class(made("TestViewCPU", "TestView_base")) == "TestView"
    assert facts.generic_class(made("TestView_baseCPU", "TestView_base")) == "TestView_base"


@pytest.mark.parametrize(
    ("collected", "method"),
    [
        ("test_sum_add_cpu_float32", "test_sum"),
        ("test_sum", "test_sum"),
        ("test_other_cpu", "test_other_cpu"),
        ("test_summary_cpu", "test_summary_cpu"),
    ],
)
def test_method_is_whole_or_nothing(collected: str, method: str) -> None:
    assert facts.generic_method(collected, generated(Written.test_sum)) == method


def test_infos_get_their_own_keys() -> None:
    variant = facts.variant_of({"op_info": BinaryUfuncInfo(), "module_info": ModuleInfo()}, "x")
    assert variant == {"op": "div.floor_rounding", "module": "nn.Linear"}
    both = facts.variant_of({"op": "a text", "other": OpInfo()}, "x")
    assert both == {"op": "a text", "other": "linalg.norm.subgradients_at_zero"}


def test_case_joins_where_a_value_has_no_text() -> None:
    assert facts.variant_of({"f": object()}, "test_a_f0")["case"] == "test_a_f0"
    assert "case" not in facts.variant_of({"n": 3}, "test_a_n_3")


def test_quick_sees_the_parameters_it_names() -> None:
    marked = quick(lambda dtype: dtype == "f")(lambda self: None)
    assert facts.is_quick(generated(marked), {"dtype": "f", "op": 1})
    assert not facts.is_quick(generated(marked), {"dtype": "i", "op": 1})
    assert facts.is_quick(quick()(lambda self: None), {})
    assert not facts.is_quick(Written.test_sum, {})


def test_facts_of_a_generated_test() -> None:
    found = facts.facts_of(
        "test_sum_cpu_float32", device_class(), generated(Written.test_sum, device="cpu"), __file__
    )
    assert (found.class_name, found.method) == ("TestGeneric", "test_sum")
    assert found.variant == {"device": "cpu"}
    assert found.line == Written.test_sum.__code__.co_firstlineno


def test_unittest_marks_are_markers() -> None:
    def skipped(self: Any) -> None: ...

    skipped.__unittest_skip__ = True  # type: ignore[attr-defined]
    assert facts.facts_of("test_a", None, skipped, __file__, ("slow",)).markers == ("skip", "slow")


def test_core_needs_no_torch() -> None:
    program = (
        "import sys, crosscheck_probe.facts, crosscheck_probe.channel, crosscheck_probe.text,"
        " crosscheck_probe.request, crosscheck_probe.marks, crosscheck_probe.environment;"
        " sys.exit('torch' in sys.modules)"
    )
    environment = {**os.environ, "PYTHONPATH": str(PROBE / "src")}
    assert subprocess.run([sys.executable, "-c", program], env=environment).returncode == 0


def test_the_source_of_a_test_is_its_definition_s_text(tmp_path: Path) -> None:
    def source(text: str, name: str = "test_x") -> str:
        module: dict[str, Any] = {"functools": functools}
        path = tmp_path / f"m{len(list(tmp_path.iterdir()))}.py"
        path.write_text(text)
        exec(compile(text, str(path), "exec"), module)
        held = module[name] if name in module else getattr(module["T"], name)
        return facts.facts_of(name, None, generated(held, n=1), str(path)).source

    plain = source("def test_x():\n    pass\n")
    assert len(plain) == 16
    # Elsewhere in its file, indented, with blanks at the ends of lines.
    assert source("import os\n\n\nclass T:\n    def test_x():  \n        pass\n") == plain
    assert source("def test_x():\n    return 1\n") != plain
    decorated = "@functools.cache\ndef test_x():\n    pass\n"
    assert source(decorated) not in (plain, source(decorated.replace("cache", "lru_cache(1)")))
    # Made without a text.
    made: dict[str, Any] = {}
    exec("def test_x(): pass", made)
    assert facts.facts_of("test_x", None, made["test_x"], "x.py").source == ""
