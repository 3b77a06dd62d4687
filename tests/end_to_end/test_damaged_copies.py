"""A range asked of each shell while copies of its parts are damaged or gone."""

from __future__ import annotations

import json
import logging
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from zipfile import ZipFile

import pytest

from api.core.descriptors import message_class
from api.core.telemetry import log
from exporters.zip_names import zip_name
from tests.api.rpc.kit import FailedCallError, client_of, messages, outcome
from tests.api.server_kit import serving, settings
from tests.api.site_kit import CHAIN, FIRST, SECOND, THIRD, Site, small_site
from tests.command_kit import run_strata
from tests.segments_kit import expected_member
from tests.transforms.warehouse_kit import change_rows, relist
from transforms.block_range import BlockRange

LOGGERS = (log, logging.getLogger("uvicorn.error"))
TABLE, NUMBER = "orders", 5
WHOLE = BlockRange(FIRST.first, THIRD.last)


@dataclass(frozen=True)
class Outcome:
    """What a shell gave: the ZIP, or None; what it warned of; the error's words."""

    content: bytes | None
    warnings: str
    error: str = ""


Shell = Callable[[Site, Path], Outcome]


def environment(site: Site) -> dict[str, str]:
    return os.environ | {
        "STRATA_LAKE": "0",
        "STRATA_SOURCE": str(site.source_folder),
        "STRATA_WAREHOUSE": str(site.warehouse.cache),
        "STRATA_ARCHIVE": str(site.root / "archive"),
    }


def strata(site: Site, *words: str) -> subprocess.CompletedProcess[str]:
    return run_strata(*words, environment=environment(site), folder=site.root)


def by_command(site: Site, folder: Path) -> Outcome:
    asked = (TABLE, str(WHOLE.first), str(WHOLE.last))
    done = strata(site, "export", *asked, "--out", str(folder), "--json")
    if done.returncode:
        assert not list(folder.glob("*.zip"))
        return Outcome(None, "", done.stderr)
    result = json.loads(done.stdout)
    for warning in result["warnings"]:
        assert warning in done.stderr.replace("\n", "")
    return Outcome(Path(result["path"]).read_bytes(), "; ".join(result["warnings"]))


def by_rest(site: Site, folder: Path) -> Outcome:
    del folder
    asked = f"fromBlock={WHOLE.first}&toBlock={WHOLE.last}&table={NUMBER}"
    with (
        records_of(*LOGGERS) as logged,
        serving(settings(site.locations)) as served,
        served.client() as client,
    ):
        answer = client.get(f"/api/v2/networkhistory/export?{asked}")
    if answer.status_code != 200:
        assert str(site.root) not in answer.text  # paths of a server are nobody's business
        return Outcome(None, "", "; ".join(logged))
    assert len(answer.content) == int(answer.headers["content-length"])
    return Outcome(answer.content, "; ".join(logged))


def by_grpc(site: Site, folder: Path) -> Outcome:
    del folder
    asked = message_class("datanode.api.v2.ExportNetworkHistoryRequest")(
        from_block=WHOLE.first, to_block=WHOLE.last, table=NUMBER
    )
    with (
        records_of(*LOGGERS) as logged,
        serving(settings(site.locations, grpc=True)) as served,
        client_of(served) as rpc,
    ):
        found = outcome(lambda: list(messages(rpc.stream("ExportNetworkHistory", asked))))
    if isinstance(found, FailedCallError):
        assert str(site.root) not in str(found.body)
        return Outcome(None, "", "; ".join(logged))
    return Outcome(b"".join(message.data for message in found), "; ".join(logged))


@contextmanager
def records_of(*loggers: logging.Logger) -> Iterator[list[str]]:
    """What is logged, with the words of an exception where there is one."""
    logged: list[str] = []

    class Kept(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            error = record.exc_info[1] if record.exc_info else None
            logged.append(f"{record.getMessage()} {error or ''}".strip())

    handler = Kept(logging.WARNING)
    for logger in loggers:
        logger.addHandler(handler)
    try:
        yield logged
    finally:
        for logger in loggers:
            logger.removeHandler(handler)


SHELLS: dict[str, Shell] = {
    "strata export": by_command,
    "REST": by_rest,
    "gRPC": by_grpc,
}
every_shell = pytest.mark.parametrize("shell", SHELLS.values(), ids=SHELLS.keys())


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Site:
    """Three segments: the first two published, of the first a waiting copy too; the third waits."""
    site = small_site(tmp_path_factory.mktemp("site"))
    site.publish([FIRST, SECOND])
    for ending in ("", ".sha256"):
        shutil.copy(f"{published(site, FIRST)}{ending}", f"{waiting(site, FIRST)}{ending}")
    return site


@pytest.fixture(scope="module")
def sound(built: Site, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The ZIP as the command writes it while all copies are sound."""
    site = built.copied(tmp_path_factory.mktemp("sound") / "site")
    found = by_command(site, tmp_path_factory.mktemp("out"))
    assert not found.warnings
    assert found.content is not None
    with ZipFile(BytesIO(found.content)) as opened:
        assert opened.testzip() is None
        (name,) = opened.namelist()
        segments = sorted(
            built.source_folder.glob("*.zip"), key=lambda path: int(path.stem.split("-")[-2])
        )
        assert opened.read(name) == expected_member(segments, TABLE)
    return found.content


@pytest.fixture
def site(built: Site, tmp_path: Path) -> Site:
    return built.copied(tmp_path / "site")


def published(site: Site, blocks: BlockRange) -> Path:
    return site.root / "archive" / CHAIN / TABLE / zip_name(CHAIN, TABLE, blocks)


def waiting(site: Site, blocks: BlockRange) -> Path:
    return site.stage.path(CHAIN, TABLE, blocks)


def flip(path: Path) -> None:
    """Flip one bit in the middle of a file, in place."""
    with path.open("r+b") as file:
        file.seek(path.stat().st_size // 2)
        (byte,) = file.read(1)
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte ^ 0x10]))


def alter_volume(site: Site) -> None:
    """Change a cell of the orders in their data file, as a fault of the disk could."""
    (data,) = (site.warehouse.cache / "data" / "orders").iterdir()
    change_rows(data, "update rows set reference = 'x' where _segment = 1 and _row = 1")
    relist(site.warehouse)


def _published_flipped(site: Site) -> list[Path]:
    flip(published(site, FIRST))
    return [published(site, FIRST)]


def _staged_flipped(site: Site) -> list[Path]:
    flip(waiting(site, THIRD))
    return [waiting(site, THIRD)]


def _both_flipped(site: Site) -> list[Path]:
    for path in (published(site, FIRST), waiting(site, FIRST)):
        flip(path)
    return [published(site, FIRST), waiting(site, FIRST)]


def _published_gone(site: Site) -> list[Path]:
    published(site, SECOND).unlink()
    return [published(site, SECOND)]


def _published_cut(site: Site) -> list[Path]:
    path = published(site, SECOND)
    path.write_bytes(path.read_bytes()[:-1])
    return [path]


FAULTS = {
    "nothing": lambda _site: [],
    "a bit of the published ZIP": _published_flipped,
    "a bit of the staged ZIP": _staged_flipped,
    "a bit of both": _both_flipped,
    "the published ZIP is gone": _published_gone,
    "the published ZIP is cut": _published_cut,
}


@every_shell
@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS.keys())
def test_every_shell_gives_the_same_bytes_and_names_what_is_damaged(
    site: Site, sound: bytes, shell: Shell, fault: Callable[[Site], list[Path]], tmp_path: Path
) -> None:
    damaged = fault(site)

    found = shell(site, tmp_path / "out")

    assert found.content == sound
    assert bool(found.warnings) == bool(damaged)
    for path in damaged:
        assert str(path) in found.warnings


@every_shell
def test_where_no_copy_is_sound_the_error_names_the_part_and_the_remedy(
    site: Site, shell: Shell, tmp_path: Path
) -> None:
    _both_flipped(site)
    alter_volume(site)

    found = shell(site, tmp_path / "out")

    assert found.content is None
    for words in (
        f"{TABLE} of segment {FIRST} is sound nowhere",
        "no longer renders to the bytes that were loaded",
        "run strata repair, then strata load",
    ):
        assert words in found.error


def test_the_remedies_of_the_warnings_work(site: Site, sound: bytes, tmp_path: Path) -> None:
    _both_flipped(site)
    _published_gone(site)
    warnings = by_command(site, tmp_path / "before").warnings
    assert "delete it" in warnings

    waiting(site, FIRST).unlink()
    for blocks in (FIRST, SECOND):
        assert f"strata publish --replace REASON --table {TABLE} --blocks {blocks}" in warnings
        again = ("publish", "--replace", "a bit flipped", "--table", TABLE, "--blocks", str(blocks))
        assert strata(site, *again).returncode == 0

    after = by_command(site, tmp_path / "after")
    assert after.content == sound
    assert not after.warnings


@every_shell
def test_a_copy_is_read_to_be_proven_once_by_whoever_asks_first(
    site: Site, sound: bytes, shell: Shell, tmp_path: Path
) -> None:
    by_command(site, tmp_path / "first")
    record = site.warehouse.cache / "proofs.sqlite"
    before = record.read_bytes()

    assert shell(site, tmp_path / "second").content == sound
    assert record.read_bytes() == before
