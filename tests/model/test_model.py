"""The warehouse and the archive beside a model: a hundred steps in the gate, more by `--steps`."""

from __future__ import annotations

from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.model.machine import ModelMachine

EXAMPLE_STEPS = 25
GATE_STEPS = 100


def test_random_commands_leave_what_the_model_says(steps: int) -> None:
    is_gate = steps <= GATE_STEPS
    run_state_machine_as_test(
        ModelMachine,
        settings=settings(
            max_examples=max(1, steps // EXAMPLE_STEPS),
            stateful_step_count=EXAMPLE_STEPS,
            derandomize=is_gate,
            database=None,
            deadline=None,
            phases=[Phase.generate] if is_gate else [Phase.generate, Phase.shrink],
            suppress_health_check=[*HealthCheck],
        ),
    )
