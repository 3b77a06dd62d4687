"""What a process is asked to try."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True)
class Order:
    """Tries of a campaign, by number; all that is drawn for each follows from `seed` and number.

    `scenarios` are the only ones that are tried, each as often as the others (none: all).
    """

    campaign: str
    seed: str
    numbers: tuple[int, ...]
    scenarios: tuple[str, ...] = ()

    def dump(self) -> str:
        """As an argument of a process."""
        return json.dumps(asdict(self))

    def again(self, number: int) -> str:
        """The command that repeats one of the tries."""
        only = f" --scenarios '{','.join(self.scenarios)}'" if self.scenarios else ""
        return (
            f"python -m tests.faults --only {self.campaign} --number {number} "
            f"--seed {self.seed}{only}"
        )


def parse_order(text: str) -> Order:
    """Read an order back."""
    row = json.loads(text)
    return Order(row["campaign"], row["seed"], tuple(row["numbers"]), tuple(row["scenarios"]))
