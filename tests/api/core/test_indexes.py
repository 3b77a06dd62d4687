"""Index files that cannot be read: DuckDB answers the same, and they are asked again once sound."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from api.core.open_snapshots import OpenSnapshots, Reading
from tests.api.answers_kit import Json, ask, drop_lookups, load
from tests.api.chain_kit import ALICE, LONG_ORDER, MARKET, ORDER, RESOURCE, chain_folder
from transforms.warehouse.warehouse_address import open_warehouse

_PATHS = (
    f"/api/v2/order/versions/{ORDER}",
    f"/api/v2/order/versions/{LONG_ORDER}",
    f"/api/v2/order/versions/{ALICE}",
    "/api/v2/withdrawals",
    f"/api/v2/withdrawals?partyId={ALICE}&pagination.newestFirst=false",
    f"/api/v2/withdrawal/{ORDER}",
    f"/api/v2/liquidity/provisions?marketId={MARKET}",
    f"/api/v2/liquidity/provisions?partyId={ALICE}&reference=ref%20f1",
    f"/api/v2/node/signatures?id={RESOURCE}",
)


def _answers(reading: Reading) -> list[tuple[int, Json]]:
    return [ask(reading, path) for path in _PATHS]


def _flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    for at in range(0, len(data), 97):
        data[at] ^= 4
    path.write_bytes(data)


def _cut(path: Path) -> None:
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size // 2)


def _empty(path: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sound")
    for number in range(3):  # each in a volume of its own
        load(chain_folder(folder / "source", number), folder / "warehouse")
    return folder / "warehouse"


@pytest.fixture(scope="module")
def wanted(sound: Path) -> list[tuple[int, Json]]:
    """What is answered without any index file."""
    root = sound.with_name("without")
    shutil.copytree(sound, root)
    drop_lookups(root)
    with OpenSnapshots.open(open_warehouse(root)) as snapshots, snapshots.reading() as reading:
        assert not any(table.lookups for table in reading.snapshot.history("orders"))
        return _answers(reading)


@pytest.mark.parametrize("at", [1, -1], ids=["of a run", "of a state"])
@pytest.mark.parametrize("when", ["before", "while"])
@pytest.mark.parametrize("harm", [Path.unlink, _cut, _flip, _empty])
def test_answers_are_the_same_and_the_log_says_what_to_do(
    sound: Path,
    wanted: list[tuple[int, Json]],
    tmp_path: Path,
    harm: Callable[[Path], object],
    when: str,
    at: int,
    caplog: pytest.LogCaptureFixture,
) -> None:
    root = tmp_path / "warehouse"
    shutil.copytree(sound, root)
    index = open_warehouse(root).loaded_catalog().volumes[at].index
    assert index is not None
    bad = root / index.key
    if when == "before":
        harm(bad)
    with OpenSnapshots.open(open_warehouse(root)) as snapshots:
        if when == "while":
            assert snapshots.lost_indexes == 0
            harm(bad)
        with snapshots.reading() as reading:
            assert _answers(reading) == wanted
        assert snapshots.damage is None
        assert snapshots.lost_indexes == 1
        (line,) = {record.getMessage() for record in caplog.records}
        assert str(bad) in line
        assert line.endswith("slower: run strata repair, which makes it again")

        snapshots.look()  # it is still not what it should be
        assert snapshots.lost_indexes == 1
        shutil.copy(sound / "index" / bad.name, bad)
        snapshots.look()
        assert snapshots.lost_indexes == 0
        with snapshots.reading() as reading:
            assert all(table.lookups for table in reading.snapshot.history("orders"))
            assert _answers(reading) == wanted
        assert snapshots.lost_indexes == 0


def test_all_may_be_lost_at_once(
    sound: Path, wanted: list[tuple[int, Json]], tmp_path: Path
) -> None:
    root = tmp_path / "warehouse"
    shutil.copytree(sound, root)
    with OpenSnapshots.open(open_warehouse(root)) as snapshots, snapshots.reading() as reading:
        for path in (root / "index").iterdir():
            _flip(path)
        assert _answers(reading) == wanted
        assert snapshots.lost_indexes == 4
