"""The name of this machine, which every message of a failed run says."""

from __future__ import annotations

import socket

MACHINE_TAG = "strata/machine"
"""The machine that a run was begun on, or that could not begin it."""


def machine_name() -> str:
    """The name of this machine; on Kubernetes that of the pod."""
    return socket.gethostname()


def machine_tags() -> dict[str, str]:
    """The tag of a run that begins on this machine."""
    return {MACHINE_TAG: machine_name()}
