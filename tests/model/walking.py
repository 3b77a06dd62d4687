"""Walking: so many steps of the machine, the same ones each time, or those of a seed."""

from __future__ import annotations

from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.model.machine import ModelMachine

EXAMPLE_STEPS = 25
"""A new world is begun after so many."""


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
    machine = Machine if start is None else seed(start)(Machine)
    phases = [Phase.generate, Phase.shrink] if is_reduced else [Phase.generate]
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=max(1, steps // EXAMPLE_STEPS),
            stateful_step_count=EXAMPLE_STEPS,
            derandomize=start is None,
            database=None,
            deadline=None,
            phases=phases,
            # Each step is a command, which takes as long as it takes.
            suppress_health_check=[*HealthCheck],
        ),
    )
