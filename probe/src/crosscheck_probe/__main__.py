"""The program: `python -P …/crosscheck_probe/__main__.py VERB --fd N [--request FILE]`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any

from crosscheck_probe import environment
from crosscheck_probe.channel import Channel
from crosscheck_probe.leaving import leave
from crosscheck_probe.orphans import take_on_orphans
from crosscheck_probe.request import BadRequest, Request, parse_device, parse_request, read_request
from crosscheck_probe.text import message_of, traceback_of, type_name

VERBS = ("environment", "collect", "run", "observer", "support", "samples", "forkserver")
EXIT_OK = 0
EXIT_USAGE = 2
EXIT_ENVIRONMENT = 4
EXIT_INTERNAL = 5


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="crosscheck_probe", description=__doc__)
    parser.add_argument("verb", choices=VERBS)
    parser.add_argument("--fd", type=int, required=True, help="descriptor to write lines to")
    parser.add_argument("--request", help="file with the request, - for standard input")
    options = parser.parse_args(arguments)
    if options.verb == "forkserver":
        from crosscheck_probe import fork_server

        born = fork_server.serve(options.fd, parse_device(read_request(options.request)))
        if born is None:
            return EXIT_OK
        options.verb, options.fd = born
        sys.stdin = open(0, closefd=False)  # noqa: SIM115 - another file than the server's
    take_on_orphans()
    try:
        channel = Channel(options.fd)
    except (OSError, ValueError, OverflowError) as error:
        parser.error(f"descriptor {options.fd} cannot be written to: {error}")
    try:
        raw = read_request(options.request)
        if options.verb in ("support", "samples"):
            return _support(options.verb, raw, channel)
        return _do(options.verb, parse_request(options.verb, raw), channel)
    except BadRequest as error:
        channel.emit("request_error", message=str(error))
        sys.stderr.write(f"crosscheck_probe: {error}\n")
        return EXIT_USAGE
    except environment.EnvironmentFault as fault:
        channel.emit("environment_error", what=fault.what, message=str(fault))
        sys.stderr.write(f"crosscheck_probe: {fault}\n")
        return EXIT_ENVIRONMENT
    except Exception as error:
        return _internal(channel, error)


def _do(verb: str, request: Request, channel: Channel) -> int:
    environment.prepare(request.device, test_machinery=verb in ("collect", "run"))
    if verb == "observer":
        return _prepare_observer(request, channel)
    channel.emit("environment", **environment.describe(request.device, request.suite))
    if verb == "environment":
        return EXIT_OK
    from crosscheck_probe.session import Session

    assert request.suite is not None
    session = Session(
        channel,
        request.suite,
        verb == "collect",
        request.tests,
        request.repeat,
        request.device.name,
        request.trace,
    )
    files = request.suite.files if verb == "collect" else (request.file or "",)
    session.run(files)
    if session.internal_error is not None:
        return _internal(channel, session.internal_error)
    channel.emit("end")
    return EXIT_OK


def _prepare_observer(request: Request, channel: Channel) -> int:
    from crosscheck_probe import observer

    assert request.trace is not None
    try:
        channel.emit("observer", **observer.prepare(request.trace.observer))
    except observer.CannotBuild as error:
        raise environment.EnvironmentFault("observer", str(error)) from error
    return EXIT_OK


def _support(verb: str, raw: dict[str, Any], channel: Channel) -> int:
    device = parse_device(raw)
    environment.prepare(device, test_machinery=False)
    from crosscheck_probe import support

    support.prepare()
    channel.emit("environment", **environment.describe(device, None))
    support.run(verb, device, raw, channel)
    channel.emit("end")
    return EXIT_OK


def _internal(channel: Channel, error: BaseException) -> int:
    channel.emit(
        "internal_error",
        type=type_name(type(error)),
        message=message_of(error),
        traceback=traceback_of(error),
    )
    return EXIT_INTERNAL


if __name__ == "__main__":
    leave(main())
