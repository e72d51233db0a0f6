from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from crosscheck_probe.request import BadRequest, parse_request, read_request

CPU = {"name": "cpu"}


@pytest.mark.parametrize(
    ("verb", "raw", "says"),
    [
        ("collect", {}, '"suite" is missing'),
        ("collect", {"suite": []}, '"suite" is missing'),
        ("collect", {"suite": {"name": "x"}}, "bundled or tree"),
        ("collect", {"suite": {"name": "tree"}}, '"root" is missing'),
        ("collect", {"suite": {"name": "tree", "root": "a"}}, "absolute"),
        (
            "collect",
            {"suite": {"name": "tree", "root": "/nonexistent"}},
            "absolute path of a folder",
        ),
        ("collect", {"suite": {"name": "tree", "root": "/"}}, '"suite.files"'),
        ("collect", {"suite": {"name": "bundled", "files": [1]}}, "list of texts"),
        ("collect", {"suite": {"name": "bundled", "files": ["../x.py"]}}, "under the suite's root"),
        ("collect", {"suite": {"name": "bundled", "files": ["/x.py"]}}, "under the suite's root"),
        ("collect", {"suite": {"name": "bundled", "files": ["test_no.py"]}}, "is no file"),
        ("collect", {"suite": {"name": "bundled"}, "device": 3}, '"device" must be an object'),
        ("collect", {"suite": {"name": "bundled"}, "device": {}}, '"name" is missing'),
        (
            "collect",
            {"suite": {"name": "bundled"}, "device": {"name": "x", "setup": {"module": 3}}},
            "device.setup.module",
        ),
        ("run", {"suite": {"name": "bundled"}}, '"file" is missing'),
        ("run", {"suite": {"name": "bundled"}, "file": "test_no.py"}, "is no file"),
        (
            "run",
            {"suite": {"name": "bundled"}, "file": "test_views.py", "tests": "a"},
            "list of texts",
        ),
        ("run", {"suite": {"name": "bundled"}, "file": "test_views.py", "repeat": 0}, "at least 1"),
    ],
)
def test_bad_requests_say_what_is_wrong(verb: str, raw: dict[str, Any], says: str) -> None:
    with pytest.raises(BadRequest, match=says.replace(".", r"\.")):
        parse_request(verb, raw)


def test_bundled_suite_is_all_of_it_by_default() -> None:
    suite = parse_request("collect", {"suite": {"name": "bundled"}, "device": CPU}).suite
    assert suite is not None and "test_views.py" in suite.files
    assert all(file.startswith("test_") for file in suite.files)


def test_device_setup_beside_or_inside() -> None:
    suite = {"name": "bundled"}
    for device in (
        {"name": "refdev", "module": "refdev", "path": "/x"},
        {"name": "refdev", "setup": {"module": "refdev", "path": "/x"}},
    ):
        found = parse_request("collect", {"suite": suite, "device": device}).device
        assert (found.name, found.module, found.path) == ("refdev", "refdev", "/x")


def test_unknown_keys_are_ignored() -> None:
    parse_request("collect", {"suite": {"name": "bundled", "new": 1}, "newer": 2})


@pytest.mark.parametrize("text", ["", "{", "[]", "\udcff"])
def test_unreadable_requests(tmp_path: Path, text: str) -> None:
    path = tmp_path / "request.json"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(BadRequest):
        read_request(str(path))
    with pytest.raises(BadRequest, match="cannot be read"):
        read_request(str(tmp_path / "none"))
