"""The program: `python -m crosscheck_probe.workload REQUEST.json RESULT.json`."""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import tempfile
from collections.abc import Sequence
from typing import Any

from crosscheck_probe.environment import EnvironmentFault
from crosscheck_probe.leaving import leave
from crosscheck_probe.request import BadRequest, read_request
from crosscheck_probe.workload.request import Launch, parse_launch

EXIT_OK = 0
EXIT_USAGE = 2
EXIT_ENVIRONMENT = 4


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="crosscheck_probe.workload", description=__doc__)
    parser.add_argument("--list", action="store_true", help="print the library, one case a line")
    parser.add_argument("--preflight", action="store_true", help="print what runs here, as JSON")
    parser.add_argument("request", nargs="?", metavar="REQUEST", help="file that says what to do")
    parser.add_argument("result", nargs="?", metavar="RESULT", help="file to write")
    options = parser.parse_args(arguments)
    if options.list:
        from crosscheck_probe.workload.catalogue import CASES

        for case in CASES.values():
            print(json.dumps(case.described(), separators=(",", ":")))
        return EXIT_OK
    try:
        if options.preflight:
            return _preflight()
        if options.request is None or options.result is None:
            parser.error("REQUEST and RESULT are needed")
        launch = parse_launch(read_request(options.request))
        target = os.path.abspath(options.result)
        if not os.path.isdir(os.path.dirname(target)):
            raise BadRequest(f"the result's folder does not exist: {os.path.dirname(target)}")
        _perform(launch, target)
        return EXIT_OK
    except BadRequest as error:
        sys.stderr.write(f"crosscheck_probe: {error}\n")
        return EXIT_USAGE
    except EnvironmentFault as fault:
        sys.stderr.write(f"crosscheck_probe: {fault}\n")
        return EXIT_ENVIRONMENT


def _perform(launch: Launch, target: str) -> None:
    def write(result: dict[str, Any]) -> None:
        write_result(target, result)

    if launch.command is not None:
        from crosscheck_probe.workload import command

        return command.perform(launch, write)
    from crosscheck_probe.workload.catalogue import find
    from crosscheck_probe.workload.launch import perform
    from crosscheck_probe.workload.seat import Seat

    if not launch.is_users and find(launch).distributed:
        from crosscheck_probe.workload import ranks

        return ranks.perform(launch, write)
    return perform(launch, Seat(), write)


def write_result(target: str, result: dict[str, Any]) -> None:
    """Writes the file whole or not at all; a number that JSON has not becomes null."""
    text = json.dumps(_finite(result), ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    folder, name = os.path.split(target)
    descriptor, temporary = tempfile.mkstemp(prefix=f".{name}.", dir=folder)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text + "\n")
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException:
        os.unlink(temporary)
        raise


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(k): _finite(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(v) for v in value]
    return value


def _preflight() -> int:
    from crosscheck_probe.environment import prepare
    from crosscheck_probe.request import Device
    from crosscheck_probe.workload.machine import preflight

    prepare(Device(), test_machinery=False)
    print(json.dumps(_finite(preflight()), separators=(",", ":")))
    return EXIT_OK


if __name__ == "__main__":
    leave(main())
