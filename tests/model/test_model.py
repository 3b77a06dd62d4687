"""The warehouse and the archive beside a model: a hundred steps in the gate, more by `--steps`."""

from __future__ import annotations

import random

import pytest

from tests.model.mutants import MUTANTS, mutated
from tests.model.walking import walk

_GATE_STEPS = 100


# A step runs a whole command, and a machine may be ten times slower than another.
@pytest.mark.timeout(1800)
def test_random_commands_leave_what_the_model_says(steps: int) -> None:
    if steps <= _GATE_STEPS:
        walk(steps)
        return
    start = random.SystemRandom().getrandbits(32)
    print(f"steps are drawn from {start}")  # pytest shows it where a step fails
    walk(steps, start, is_reduced=True, may_have_lake=True)


def test_every_seeded_fault_has_its_place_in_the_product() -> None:
    for mutant in MUTANTS:
        assert mutated(mutant), mutant.name
