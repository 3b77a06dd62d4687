"""Snapshots under requests: followed without dropping one, and let go of afterwards."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import pytest

from api.core.api_errors import FailedError, UnavailableError
from api.core.open_snapshots import OpenSnapshots, Reading
from api.queries.liquidity import changed_provisions, current_provisions
from api.queries.network import segments_page, vega_time
from api.queries.orders import list_order_versions
from api.queries.withdrawals import prepare
from tests.api.answers_kit import ask, load, page
from tests.api.chain_kit import ORDER, chain_folder
from tests.api.message_types import LIST_ORDER_VERSIONS, LIST_SEGMENTS
from tests.cid_kit import cid_of
from tests.rollback_kit import lose_snapshots
from tests.segments_kit import Table, block_time, build_segment, columns, table_rows
from tests.transforms.warehouse_kit import STATE_TABLES, change_rows, relist, volume_files
from transforms.sessions import InterruptedQueryError
from transforms.warehouse.checks.log_repair import repair
from transforms.warehouse.manifests.manifest import read_segments
from transforms.warehouse.warehouse_address import open_warehouse

_PATH = f"/api/v2/order/versions/{ORDER}"
_SLOW = "select count(*) from range(100000000) a, range(1000) b where a.range % 7 = b.range"


def _versions(reading: Reading) -> list[str]:
    return [edge["node"]["version"] for edge in page(reading, _PATH)[0]]


def _open_files(root: Path) -> set[str]:
    """The databases below a folder that this process has open."""
    links = Path("/proc/self/fd").iterdir()
    targets = {str(link.readlink()) for link in links if link.is_symlink()}
    return {
        one for one in targets if one.startswith(str(root)) and one.endswith((".duckdb", ".sqlite"))
    }


def test_a_request_reads_one_snapshot_from_beginning_to_end(tmp_path: Path) -> None:
    root = tmp_path / "warehouse"
    load(chain_folder(tmp_path / "source", 0), root)
    with OpenSnapshots.open(open_warehouse(root)) as snapshots:
        with snapshots.reading() as early:
            assert _versions(early) == ["1"]
            load(chain_folder(tmp_path / "source", 1), root)
            assert snapshots.refresh()
            assert not snapshots.refresh()
            with snapshots.reading() as late:
                assert _versions(late) == ["3", "2", "1"]
                assert late.snapshot.newest is not None
                assert late.snapshot.newest.height == 20
            assert _versions(early) == ["1"]
        assert early.snapshot.users == 0


def test_files_are_let_go_of_when_their_last_request_is_over(tmp_path: Path) -> None:
    root = tmp_path / "warehouse"
    # The state of each schema version is one file, replaced as history advances.
    unused = {*STATE_TABLES} - {"node_signatures"}
    build_segment(tmp_path / "source", last=3, omit=unused)
    load(tmp_path / "source", root)
    with OpenSnapshots.open(open_warehouse(root)) as snapshots:
        with snapshots.reading() as early:
            files = {
                item.kind: volume_files(item) for item in early.snapshot.catalog.snapshot.volumes
            }
            # Its manifest is not kept open.
            old_state = {str(root / file.key) for file in files["state"][1:]}
            index = str(root / files["history"][-1].key)
            assert len(old_state) == 2  # the rows, and what they are looked up in
            assert _versions(early) == []
            assert ask(early, "/api/v2/node/signatures?id=03")[0] == 200
            build_segment(tmp_path / "source", first=4, last=6, omit=unused)
            load(tmp_path / "source", root)
            snapshots.refresh()
            assert {*old_state, index} <= _open_files(root)
        held = _open_files(root)
        assert held.isdisjoint(old_state)
        assert index in held
    assert _open_files(root) == set()


def test_manifests_are_read_when_segments_are_asked_for(tmp_path: Path) -> None:
    root = tmp_path / "warehouse"
    load(chain_folder(tmp_path / "source", 0, 1), root)
    read_segments.cache_clear()
    with OpenSnapshots.open(open_warehouse(root)) as snapshots, snapshots.reading() as reading:
        assert reading.snapshot.segments == 2
        assert read_segments.cache_info().currsize == 0
        assert len(ask(reading, "/api/v2/networkhistory/segments")[1]["segments"]) == 2
        assert read_segments.cache_info().currsize == len(reading.snapshot.catalog.snapshot.history)


def test_cursors_outlive_the_snapshot_that_gave_them(tmp_path: Path) -> None:
    root = tmp_path / "warehouse"
    load(chain_folder(tmp_path / "source", 0, 1), root)
    with OpenSnapshots.open(open_warehouse(root)) as snapshots:
        with snapshots.reading() as reading:
            first, info_ = page(reading, f"{_PATH}?pagination.first=2")
        load(chain_folder(tmp_path / "source", 2), root)
        snapshots.refresh()
        with snapshots.reading() as reading:
            at = info_["endCursor"].replace("+", "%2B").replace("=", "%3D")
            rest, info_ = page(reading, f"{_PATH}?pagination.after={at}")
            again, _ = page(reading, f"{_PATH}?pagination.before={at}")
    assert [edge["node"]["version"] for edge in first + rest] == ["3", "2", "1"]
    assert (info_["hasNextPage"], info_["hasPreviousPage"]) == (False, True)
    assert [edge["node"]["version"] for edge in again] == ["4", "3"]


def test_many_threads_read_while_the_snapshot_changes(tmp_path: Path) -> None:
    root = tmp_path / "warehouse"
    load(chain_folder(tmp_path / "source", 0), root)
    stop = threading.Event()
    seen: set[int] = set()

    def read() -> None:
        while not stop.wait(0.005):
            with snapshots.reading() as reading:
                found = list_order_versions(reading, LIST_ORDER_VERSIONS(order_id=ORDER))
                height = reading.snapshot.newest.height if reading.snapshot.newest else 0
                assert len(found.records) == {10: 1, 20: 3}[height]
                seen.add(height)

    with OpenSnapshots.open(open_warehouse(root)) as snapshots, ThreadPoolExecutor(4) as threads:
        running = [threads.submit(read) for _ in range(4)]
        load(chain_folder(tmp_path / "source", 1), root)
        snapshots.refresh()
        stop.set()
        for future in running:
            future.result()
    assert 10 in seen


def test_without_anything_loaded_the_server_says_so_and_notices_the_first_load(
    tmp_path: Path,
) -> None:
    root = tmp_path / "warehouse"
    with OpenSnapshots.open(open_warehouse(root)) as snapshots:
        assert snapshots.current is None
        assert not snapshots.refresh()
        with pytest.raises(UnavailableError, match="nothing is loaded yet"), snapshots.reading():
            pass
        load(chain_folder(tmp_path / "source", 0), root)
        assert snapshots.refresh()
        with snapshots.reading() as reading:
            assert _versions(reading) == ["1"]


@pytest.mark.parametrize("harm", ["lost", "damaged"])
def test_a_snapshot_that_is_not_whole_is_refused_until_it_is_whole_again(
    tmp_path: Path, harm: str
) -> None:
    root, folder = tmp_path / "warehouse", "data/blocks"
    load(chain_folder(tmp_path / "source", 0), root)
    with OpenSnapshots.open(open_warehouse(root)) as snapshots:
        known = {*(root / folder).iterdir()}
        load(chain_folder(tmp_path / "source", 1), root)
        (fresh,) = {*(root / folder).iterdir()} - known
        hidden = fresh.rename(tmp_path / "hidden")
        if harm == "damaged":
            fresh.write_bytes(b"x" * hidden.stat().st_size)
        for _ in range(2):
            assert not snapshots.refresh()
            with pytest.raises(UnavailableError, match=fresh.name), snapshots.reading():
                pass
            snapshots.look()
        hidden.rename(fresh)
        snapshots.look()
        assert snapshots.refresh()
        with snapshots.reading() as reading:
            assert _versions(reading) == ["3", "2", "1"]


def test_a_log_that_lost_its_newest_snapshots_is_refused_until_repair(tmp_path: Path) -> None:
    root = tmp_path / "warehouse"
    for number in (0, 1):
        load(chain_folder(tmp_path / "source", number), root)
    with OpenSnapshots.open(open_warehouse(root)) as snapshots:
        lose_snapshots(root)
        for opened in (snapshots, None):
            with ExitStack() as stack:
                server = opened or stack.enter_context(OpenSnapshots.open(open_warehouse(root)))
                assert not server.refresh()
                with (
                    pytest.raises(UnavailableError, match=r"was seen: .*run strata repair"),
                    server.reading(),
                ):
                    pass
        repair(open_warehouse(root).backing)
        assert snapshots.refresh()
        with snapshots.reading() as reading:
            assert _versions(reading) == ["3", "2", "1"]


def test_a_volume_without_an_index_file_is_refused_until_repair_made_it(tmp_path: Path) -> None:
    root = tmp_path / "warehouse"
    load(chain_folder(tmp_path / "source", 0), root)
    backing = open_warehouse(root).backing
    backing.log.commit(
        lambda newest: newest.with_volumes(replace(each, index=None) for each in newest.volumes)
    )
    with OpenSnapshots.open(open_warehouse(root), prepare=prepare) as snapshots:
        with snapshots.reading() as reading:
            assert vega_time(reading, None)
            for path in (_PATH, "/api/v2/withdrawals"):
                status, body = ask(reading, path)
                assert (status, "run strata repair" in body["message"]) == (503, True)
        repair(backing)
        assert snapshots.refresh()
        with snapshots.reading() as reading:
            assert _versions(reading) == ["1"]


def test_an_interrupted_request_stops_and_stays_stopped(tmp_path: Path) -> None:
    root = tmp_path / "warehouse"
    load(chain_folder(tmp_path / "source", 0), root)
    with OpenSnapshots.open(open_warehouse(root)) as snapshots:
        with snapshots.reading() as reading, ThreadPoolExecutor(1) as thread:
            over = threading.Event()

            def interrupt() -> None:
                while not over.wait(0.005):
                    reading.interrupt()

            thread.submit(interrupt)
            try:
                with pytest.raises(InterruptedQueryError):
                    reading.rows(_SLOW)
            finally:
                over.set()
            with pytest.raises(InterruptedQueryError, match="before it began"):
                reading.rows("select 1")
        with snapshots.reading() as reading:
            assert reading.rows("select 1") == [(1,)]


def test_the_network_is_known_without_a_query(tmp_path: Path) -> None:
    root = tmp_path / "warehouse"
    source = chain_folder(tmp_path / "source", 0, 1)
    load(source, root)
    sources = [source / f"kit-chain-1-{blocks}.zip" for blocks in ("1-10", "11-20")]
    with OpenSnapshots.open(open_warehouse(root)) as snapshots, snapshots.reading() as reading:
        ((newest, oldest),) = segments_page(reading, LIST_SEGMENTS())
        assert (newest[:2], oldest[:2]) == ((11, 20), (1, 10))
        assert newest[4:] == (1, "kit-chain")
        assert oldest[3] == ""
        assert [newest[2], oldest[2]] == [cid_of(path) for path in reversed(sources)]
        # Where it names no predecessor: the id of the one that is there.
        assert newest[3] == oldest[2]
        assert vega_time(reading, None) == ((1672531200 + 20) * 10**9,)
        status, body = ask(reading, "/api/v2/networkhistory/segments")
        assert (status, len(body["segments"])) == (200, 2)
        built = {"version": f"v{version('strata')}", "commitHash": ""}
        assert ask(reading, "/api/v2/info") == (200, built)
    assert block_time(20) == "2023-01-01 00:00:20+00"


def test_a_segment_that_lacks_a_key_is_loaded_and_answered_around(tmp_path: Path) -> None:
    """The column is not in any header: such rows can be exported, and not be found."""
    keys = {"orders": "id", "withdrawals": "party_id", "liquidity_provisions": "market_id"}
    tables = {
        table: (tuple(name for name in columns(table) if name != key), ())
        for table, key in keys.items()
    }
    build_segment(tmp_path / "source", last=10, tables=tables, omit=STATE_TABLES)
    load(tmp_path / "source", tmp_path / "warehouse")
    with OpenSnapshots.open(open_warehouse(tmp_path / "warehouse")) as snapshots:
        with snapshots.reading() as reading:
            assert _versions(reading) == []
            assert page(reading, "/api/v2/withdrawals")[0] == []
            assert page(reading, f"/api/v2/liquidity/provisions?partyId={ORDER}")[0] == []
            assert ask(reading, f"/api/v2/withdrawal/{ORDER}")[0] == 404
            assert list(current_provisions(reading)) == []
            assert changed_provisions(reading, ()) == []
            assert page(reading, "/api/v2/oracle/data")[0] == []
            assert page(reading, f"/api/v2/node/signatures?id={ORDER}")[0] == []
        load(chain_folder(tmp_path / "source", 1), tmp_path / "warehouse")
        snapshots.refresh()
        with snapshots.reading() as reading:
            assert _versions(reading) == ["3", "2"]
            assert len(page(reading, "/api/v2/withdrawals")[0]) == 3


def test_columns_that_hide_the_numbers_of_rows_hide_no_rows(tmp_path: Path) -> None:
    tables: dict[str, Table] = {}
    for table in ("orders", "withdrawals"):
        header, rows = table_rows(table, {"id": f"\\x{ORDER}"})
        tables[table] = ((*header, "RowId"), [[*row, "x"] for row in rows])
    build_segment(tmp_path / "source", last=10, tables=tables, omit=STATE_TABLES)
    load(tmp_path / "source", tmp_path / "warehouse")
    with (
        OpenSnapshots.open(open_warehouse(tmp_path / "warehouse")) as snapshots,
        snapshots.reading() as reading,
    ):
        assert len(_versions(reading)) == 1
        (edge,) = page(reading, "/api/v2/withdrawals")[0]
        party = edge["node"]["partyId"]
        assert page(reading, f"/api/v2/withdrawals?partyId={party}")[0] == [edge]
        assert ask(reading, f"/api/v2/withdrawal/{ORDER}")[0] == 200


def test_without_blocks_there_is_no_time(tmp_path: Path) -> None:
    build_segment(tmp_path / "source", last=2, omit=STATE_TABLES)
    load(tmp_path / "source", tmp_path / "warehouse")
    warehouse = open_warehouse(tmp_path / "warehouse")
    (path,) = (warehouse.cache / "data" / "blocks").iterdir()
    change_rows(path, "delete from rows")
    relist(warehouse)
    with OpenSnapshots.open(warehouse) as snapshots, snapshots.reading() as reading:
        assert reading.snapshot.newest is None
        with pytest.raises(FailedError, match="failed to get last block"):
            vega_time(reading, None)
