"""Walking: so many steps of the machine, the same ones each time, or those of a seed."""

from __future__ import annotations

import os
import sys
from typing import ClassVar

import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.model.machine import DECK, ModelMachine


def walk(
    steps: int, start: int | None = None, *, is_reduced: bool = False, may_have_lake: bool = False
) -> None:
    """Walk; `start` is what random steps are drawn from (None: always the same ones).

    With `is_reduced` steps that lead to a failure are tried again with some left out, which takes
    many times as long.
    """

    class Machine(ModelMachine):
        """One to which a seed can be given."""

    Machine.may_have_lake = may_have_lake
    _walk(Machine, steps, start, is_reduced=is_reduced)


def _walk(machine: type[ModelMachine], steps: int, start: int | None, *, is_reduced: bool) -> None:
    phases = [Phase.generate, Phase.shrink] if is_reduced else [Phase.generate]
    run_state_machine_as_test(
        machine if start is None else seed(start)(machine),
        settings=settings(
            max_examples=max(1, steps // len(DECK)),
            stateful_step_count=len(DECK),
            derandomize=start is None,
            database=None,
            deadline=None,
            phases=phases,
            # Each step is a command, which takes as long as it takes.
            suppress_health_check=[*HealthCheck],
        ),
    )


class _BriefMachine(ModelMachine):
    """One that ends the process where something is wrong, and says in which step."""

    all_taken: ClassVar[int] = 0

    def teardown(self) -> None:
        error = sys.exc_info()[1]
        try:
            super().teardown()
        except (Exception, pytest.fail.Exception) as last:  # noqa: BLE001
            error = last
        type(self).all_taken += len(self.taken)
        if isinstance(error, (Exception, pytest.fail.Exception)):
            (sentence, *_) = str(error).splitlines() or [repr(error)]
            step = " ".join((self.taken or [("begin",)])[-1])
            print(f"step {self.all_taken} ({step}): {sentence[:200]}")
            sys.stdout.flush()
            os._exit(NOTICED)


NOTICED = 3
"""The exit code where something is wrong."""

if __name__ == "__main__":
    _walk(
        _BriefMachine,
        int(sys.argv[1]),
        int(sys.argv[2]) if sys.argv[2:] else None,
        is_reduced=False,
    )
