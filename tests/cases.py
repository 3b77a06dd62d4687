"""Tables of cases, each of which one test goes through: it names all that differ.

For facts of a table, which share what they are asked of. Cases that need fixtures of their own are
parameters of pytest.
"""

from __future__ import annotations

import inspect
import reprlib
from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from typing import Any

import pytest

Test = Callable[..., None]
_FAILURES = (pytest.fail.Exception, BaseExceptionGroup)


def each_of(names: str | Sequence[str], cases: Iterable[Any]) -> Callable[[Test], Test]:
    """Let a test run for each case, which gives the arguments `names` their values.

    All cases run; those that fail are raised together, each with a note of its values.
    """
    keys = [name.strip() for name in names.split(",")] if isinstance(names, str) else [*names]
    rows = [tuple(case) if len(keys) > 1 else (case,) for case in cases]
    assert rows, "there is no case"

    def decorated(test: Test) -> Test:
        @wraps(test)
        def tested(**fixtures: Any) -> None:
            problems = []
            for row in rows:
                values = dict(zip(keys, row, strict=True))
                try:
                    test(**values, **fixtures)
                except (Exception, *_FAILURES) as error:  # noqa: BLE001 - raised below
                    error.add_note(f"the case is {reprlib.repr(values)}")
                    problems.append(error)
            if problems:
                raise BaseExceptionGroup(f"{len(problems)} of {len(rows)} cases", problems)

        signature = inspect.signature(test)
        others = [one for name, one in signature.parameters.items() if name not in keys]
        tested.__signature__ = signature.replace(parameters=others)  # type: ignore[attr-defined]
        return tested

    return decorated
