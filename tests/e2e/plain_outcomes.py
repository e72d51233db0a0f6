"""A pytest plugin: what pytest itself says of every test, as JSON lines in $PLAIN_OUTCOMES."""

import json
import os
from typing import Any

_OUTCOMES: dict[str, str] = {}


def pytest_runtest_logreport(report: Any) -> None:
    outcome = report.outcome
    if hasattr(report, "wasxfail"):
        outcome = {"skipped": "xfailed", "passed": "xpassed"}.get(outcome, outcome)
    known = _OUTCOMES.get(report.nodeid, "passed")
    # Set-up and teardown pass where the test does not; a failure of any of them is the test's.
    if known != "failed" and outcome != "passed":
        known = outcome
    _OUTCOMES[report.nodeid] = known


def pytest_sessionfinish() -> None:
    with open(os.environ["PLAIN_OUTCOMES"], "w", encoding="utf-8") as out:
        for node, outcome in _OUTCOMES.items():
            print(json.dumps([node, outcome]), file=out)
