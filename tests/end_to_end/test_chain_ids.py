"""A chain whose id is as long and as odd as may be loaded is published, verified and fetched."""

from __future__ import annotations

import os
from pathlib import Path

from tests.command_kit import run_strata
from tests.transforms.warehouse_kit import history_segment
from transforms.segments.segment_name import RESERVED_CHAIN_IDS

CHAIN = ("x-orders-1-2.zip.sha256-index.html..tmp-" * 4)[:128]
FIRST, LAST = 999_999_990, 999_999_999


def strata(place: Path, *arguments: object) -> None:
    names = ("source", "warehouse", "archive")
    places = {f"STRATA_{name.upper()}": str(place / name) for name in names}
    answer = run_strata(*map(str, arguments), environment={**os.environ, **places})
    assert answer.returncode == 0, answer.stderr


def test_the_longest_chain_id_goes_all_the_way(tmp_path: Path) -> None:
    history_segment(tmp_path / "source", chain_id=CHAIN, first=FIRST, last=LAST)
    archive, out = tmp_path / "archive", tmp_path / "out"

    strata(tmp_path, "load")
    strata(tmp_path, "publish")
    strata(tmp_path, "verify")
    strata(tmp_path, "fetch", archive, "--table", "liquidity_provisions", "--out", out / "range")
    strata(tmp_path, "fetch", archive, "--all", "--out", out / "mirror")

    name = f"{CHAIN}-liquidity_provisions-{FIRST}-{LAST}.zip"
    published = (archive / CHAIN / "liquidity_provisions" / name).read_bytes()
    assert (out / "range" / name).read_bytes() == published
    assert (out / "mirror" / CHAIN / "liquidity_provisions" / name).read_bytes() == published
    beside = [*archive.iterdir(), *(tmp_path / "warehouse" / "parts").iterdir()]
    names = {path.name for path in beside if not path.name.startswith(".")}
    assert names - {CHAIN} == RESERVED_CHAIN_IDS
