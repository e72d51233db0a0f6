"""Marks that the tests of the bundled suite carry."""

from __future__ import annotations

from typing import Any, Callable, TypeVar

from crosscheck_probe.facts import QUICK_ATTRIBUTE

Test = TypeVar("Test", bound=Callable[..., Any])


def quick(which: bool | Callable[..., bool] = True) -> Callable[[Test], Test]:
    """Puts a test into the quick set: all its variants, or those whose parameters `which` accepts.

    `which` names the parameters it wants to see (`lambda op, dtype: …`).
    """

    def mark(test: Test) -> Test:
        setattr(test, QUICK_ATTRIBUTE, which)
        return test

    return mark
