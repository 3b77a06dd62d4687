"""Replacing published files: on purpose, on the record."""

from __future__ import annotations

import hashlib
import json
import shutil
import zipfile
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner

from exporters.publishing.replace import Correction
from pipelines.commands.group import strata
from pipelines.settings import Settings
from pipelines.site.publishing import publish_segments, replace_published
from pipelines.site.site import Site
from tests.archive_kit import contents
from tests.pipelines.kit import blocks, damages, load, make_segment, site_settings
from tests.pipelines.place_kit import placed
from tests.segments_kit import KIT_CHAIN, table_rows
from transforms.errors import ConfigError, IntegrityError
from transforms.tables.registry import HISTORY_TABLES

ALL = blocks(0, 1)
WHY = Correction("a byte was damaged on the disk", datetime(2026, 1, 2, tzinfo=UTC))


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """Two published segments ."""
    settings = site_settings(tmp_path_factory.mktemp("published"))
    for number, first in enumerate((1, 11)):
        rows = table_rows("orders", {}, {}, {}, first=first)
        make_segment(settings, number, tables={"orders": rows})
    site = Site(settings)
    load(site)
    publish_segments(site, ALL)
    return settings


@pytest.fixture
def site(published: Settings, tmp_path: Path) -> Site:
    """The same with an archive of its own."""
    archive = shutil.copytree(published.archive, tmp_path / "archive")
    return Site(replace(published, archive=str(archive)))


def zip_file(site: Site, span: str) -> Path:
    folder = Path(site.settings.archive, KIT_CHAIN, "orders")
    return folder / f"{KIT_CHAIN}-orders-{span}.zip"


def damage(path: Path) -> bytes:
    """Flip a bit in the middle of a file's data; returns what was right."""
    good = path.read_bytes()
    middle = len(good) // 3
    path.chmod(0o644)
    path.write_bytes(good[:middle] + bytes([good[middle] ^ 1]) + good[middle + 1 :])
    return good


def revisions(site: Site) -> list[dict[str, str]]:
    path = Path(site.settings.archive, KIT_CHAIN, "revisions.json")
    replaced: list[dict[str, str]] = json.loads(path.read_bytes())["revisions"]
    return replaced


def test_a_damaged_file_is_replaced_and_the_revisions_say_why(site: Site) -> None:
    path = zip_file(site, "11-20")
    good = damage(path)
    assert damages(site) != []

    assert replace_published(site, ALL[1:], ["orders"], WHY).replaced == 1
    assert path.read_bytes() == good
    assert [(row["path"].rpartition("/")[2], row["reason"]) for row in revisions(site)] == [
        (path.name, WHY.reason)
    ]
    assert damages(site) == []


def test_an_object_that_was_removed_comes_back(site: Site) -> None:
    path = zip_file(site, "1-10")
    good = path.read_bytes()
    path.unlink()

    assert replace_published(site, ALL, ["orders"], WHY).created == 1
    assert path.read_bytes() == good
    assert damages(site) == []


def test_what_is_right_already_stays_and_is_not_in_the_revisions(site: Site) -> None:
    root = Path(site.settings.archive)
    before = {path: path.stat().st_mtime_ns for path in root.rglob("*.zip")}

    report = replace_published(site, ALL, HISTORY_TABLES, WHY)

    assert (report.created, report.replaced) == (0, 0)
    assert {path: path.stat().st_mtime_ns for path in root.rglob("*.zip")} == before
    assert not (root / KIT_CHAIN / "revisions.json").exists()


def places(site: Site) -> list[str]:
    settings = site.settings
    return ["--warehouse", str(settings.warehouse), "--archive", settings.archive]


def test_the_command_replaces_one_table_of_some_blocks(site: Site) -> None:
    good = {span: damage(zip_file(site, span)) for span in ("1-10", "11-20")}

    asked = ["--replace", "bad disk", "--table", "orders", "--blocks", "11-20", "--json"]
    done = CliRunner().invoke(strata, ["publish", *asked, *places(site)])

    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["replaced"] == 1
    assert zip_file(site, "11-20").read_bytes() == good["11-20"]
    assert zip_file(site, "1-10").read_bytes() != good["1-10"]
    with zipfile.ZipFile(zip_file(site, "11-20")) as archive:
        assert archive.testzip() is None


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--table", "orders"], "--replace"),
        (["--replace", "x", "--table", "nonsense"], "nonsense"),
        (["--replace", "x", "--table", "accounts"], "accounts"),  # which has no ZIPs
        (["--replace", "x", "--blocks", "20"], "give two heights, like 1-5000"),
    ],
)
def test_a_request_that_cannot_be_meant_is_refused(
    site: Site, arguments: list[str], expected: str
) -> None:
    done = CliRunner().invoke(strata, ["publish", *arguments, *places(site)])

    assert done.exit_code == 2
    assert expected in done.stderr


def test_lost_revisions_stop_publications_until_they_are_back_or_declared_lost(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "home"))
    run = placed(site.settings, monkeypatch).run
    damage(zip_file(site, "1-10"))
    assert replace_published(site, ALL[:1], ["orders"], WHY).replaced == 1
    path = Path(site.settings.archive, KIT_CHAIN, "revisions.json")
    listed = path.read_bytes()
    sums = path.with_name("SHA256SUMS")
    path.unlink()
    before = contents(site.store)
    damage(zip_file(site, "11-20"))
    replacing = ("publish", "--replace", "bad disk", "--table", "orders", "--blocks", "11-20")
    for words in (("publish",), replacing, ("run",)):
        with pytest.raises(IntegrityError, match="is missing, and nothing else says which files"):
            run(*words)
    zip_file(site, "11-20").unlink()
    with pytest.raises(IntegrityError, match="revisions-lost REASON"):
        publish_segments(site, ALL, gone={"orders/kit-chain-orders-11-20.zip"})
    assert {key: contents(site.store).get(key) for key in before if "11-20" not in key} == {
        key: data for key, data in before.items() if "11-20" not in key
    }

    path.write_bytes(listed)
    assert run("publish")[0] == 0
    assert revisions(site)[0]["reason"] == WHY.reason
    path.unlink()
    assert run("publish", "--revisions-lost", "no mirror has it")[0] == 0
    (event,) = revisions(site)
    assert (event["path"], event["reason"]) == ("revisions.json", "no mirror has it")
    assert event["old_sha256"] == hashlib.sha256(listed).hexdigest()
    assert "  revisions.json\n" in sums.read_text()
    assert damages(site) == []
    with pytest.raises(ConfigError, match="is not lost"):
        run("publish", "--revisions-lost", "again")
