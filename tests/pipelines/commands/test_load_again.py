"""`strata load` after one that was killed when all was loaded."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from pipelines.cli import main
from pipelines.settings import Settings
from tests.pipelines.kit import make_segment, site_settings


def _load(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STRATA_SOURCE", settings.source)
    monkeypatch.setenv("STRATA_WAREHOUSE", str(settings.warehouse))
    monkeypatch.setenv("STRATA_ARCHIVE", settings.archive)
    with pytest.raises(SystemExit) as left:
        main(["load", "--json"])
    assert left.value.code == 0


def test_a_load_with_nothing_to_load_finishes_what_a_killed_one_began(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = site_settings(tmp_path)
    warehouse = Path(settings.warehouse)
    make_segment(settings, 0)
    _load(settings, monkeypatch)
    outdated = (warehouse / "current.duckdb").read_bytes()
    make_segment(settings, 1)
    _load(settings, monkeypatch)
    # Killed between the commit and the file of views:
    (warehouse / "current.duckdb").write_bytes(outdated)
    left = warehouse / "scratch" / "run-killed"
    left.mkdir()
    left.with_suffix(".lock").touch()

    _load(settings, monkeypatch)
    with duckdb.connect(warehouse / "current.duckdb", read_only=True) as con:
        assert con.execute("select count(*) from strata.segments").fetchall() == [(2,)]
    assert list((warehouse / "scratch").glob("run-*")) == []
