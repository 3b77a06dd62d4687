"""The settings of the pipeline, besides where things lie.

Every setting has a default, so that `strata run` works on a fresh machine. The meaning and the unit
of each are said here once.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from exporters.locations import (
    EMBEDDED_SOURCE,
    Amount,
    Kind,
    Locations,
    Natural,
    Positive,
    Switch,
    data_folder,
    matching,
)

_NODE = r"https?://[A-Za-z0-9._~:/%\[\]-]+"
NodeUrl = Annotated[
    str, Kind(matching(rf"({_NODE})?"), "the address of a node, such as http://127.0.0.1:3008")
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings(Locations):
    """Where things lie and how they are made; the variable of a field is `STRATA_<FIELD>`.

    `batch` is the most
    segments that one Dagster run takes; `poll_seconds` the time between two looks at the source;
    `require_id_chain` lets a load refuse a segment that contradicts the chain of the
    network's ids; `lake` lets what is published go into the lake of
    Delta tables beside the ZIPs, too, and `state_seconds` how much time at least lies between two
    current states there; `free_mb` how many MB of free disk a
    machine must have for a run to begin on it; `verify_days` after how many days `strata status`
    misses a complete check (0: never); `signing_key` the file of a secret key of
    minisign's, which published documents are signed with (None: they are not); `metrics` a folder
    for text files that Prometheus reads (None: none are written).

    `node` is the REST address of the data node that segments are collected from (empty: none),
    `node_socket` its admin socket, `retention_blocks` how many blocks it keeps a segment for after
    its last one.
    """

    batch: Positive = 100
    poll_seconds: Positive = 60
    require_id_chain: Switch = False
    lake: Switch = True
    state_seconds: Amount = 3600
    free_mb: Natural = 2000
    verify_days: Amount = 0
    signing_key: Annotated[Path | None, Kind(Path)] = None
    metrics: Annotated[Path | None, Kind(Path)] = None
    node: NodeUrl = ""
    node_socket: Annotated[Path, Kind(Path)] = Path("/tmp/datanode.sock")
    retention_blocks: Natural = 604_800

    @property
    def embedded(self) -> bool:
        """Whether the source is the embedded sample, which may be made when it is missing."""
        return self.source == EMBEDDED_SOURCE

    @property
    def has_warehouse(self) -> bool:
        """Whether somebody named a place for the warehouse, or there is one in the usual place."""
        usual = data_folder(self.source) / "warehouse"
        return self.warehouse != str(usual) or usual.exists()
