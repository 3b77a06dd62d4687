"""From an export's request to the ZIP's layout (spec 4.1; decisions 4 to 6). No HTTP here."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from api.core.api_errors import (
    InvalidArgumentError,
    MalformedParameterError,
    NotFoundError,
    Reason,
)
from api.core.descriptors import POOL, Request
from api.core.open_snapshots import Reading
from exporters.exports.plan import InvalidExportError, NotHeldError
from exporters.exports.range_export import RangeExporter
from exporters.zips.layout import Layout
from transforms.block_range import BlockRange
from transforms.bounds import both_bounds
from transforms.duck_errors import Error as DuckError
from transforms.errors import IntegrityError, RangeError
from transforms.warehouse.files.catalog import Catalog
from transforms.warehouse.questions.range_choice import choose_range

TABLES = {
    value.number: value.name.removeprefix("TABLE_").lower()
    for value in POOL.FindEnumTypeByName("datanode.api.v2.Table").values
}
"""The tables by the network's own numbers (spec 4.1)."""
_PROVE_BYTES = 64 * 2**20
"""How much of a ZIP is proven before its first byte is sent; a longer one starts in seconds too."""


def _chosen(reading: Reading, request: Request) -> tuple[int, int]:
    """The first and last block that a request means. Raises `InvalidArgumentError`."""
    begin, end = getattr(request, "from"), request.to
    if not (begin or end):
        return request.from_block, request.to_block
    if request.from_block or request.to_block:
        what = "give fromBlock and toBlock, or from and to, and not both"
        raise InvalidArgumentError(Reason.NO_SEGMENTS, what)

    reading.check_rows()
    try:
        chosen = choose_range(reading.snapshot.catalog, *both_bounds(begin, end)).blocks
    except RangeError as error:
        raise InvalidArgumentError(Reason.NO_SEGMENTS, str(error)) from error
    return chosen.first, chosen.last


@dataclass(frozen=True, slots=True)
class ExportQuery:
    """How exports are laid out; `warn` gets a sentence for each damaged copy of a part."""

    exporter: RangeExporter
    warn: Callable[[str], object]

    def lay_out(self, request: Request, reading: Reading) -> Layout:
        """Lay the ZIP out; parts that exist nowhere are rendered now, which may take long.

        Raises `InvalidArgumentError` for what cannot be right, `NotFoundError` for what is not
        held, `UnavailableError` where it needs what is lost, `IntegrityError` where a part is sound
        nowhere.
        """
        if not request.table:
            raise InvalidArgumentError(Reason.NO_TABLE, "empty table name")
        if request.table not in TABLES:  # gRPC takes any number
            what = f'parsing field "table": "{request.table}" is not a valid value'
            raise MalformedParameterError(what)
        catalog, table, blocks = reading.snapshot.catalog, TABLES[request.table], None
        try:
            blocks = _chosen(reading, request)
            return self.exporter.export(
                catalog,
                table,
                *blocks,
                prove_bytes=_PROVE_BYTES,
                warn=self.warn,
                check=reading.check_interrupt,
            ).layout.sum_up()
        except InvalidExportError as error:
            _check_losses(reading)
            raise InvalidArgumentError(Reason.NO_SEGMENTS, str(error)) from error
        except NotHeldError as error:
            _check_losses(reading)
            raise NotFoundError(Reason.NO_SEGMENTS, str(error)) from error
        except (IntegrityError, FileNotFoundError, DuckError) as error:
            raise reading.examine([*_read(catalog, table, blocks)]) or error from error


def _read(catalog: Catalog, table: str, blocks: tuple[int, int] | None) -> Iterator[Path]:
    """The data files that an export of some blocks reads; with None, that their choice reads."""
    volumes = catalog.volumes_over(BlockRange(*blocks)) if blocks else catalog.snapshot.history
    for volume in volumes:
        if file := volume.data.get(table if blocks else "blocks"):
            yield catalog.files.path(file)


def _check_losses(reading: Reading) -> None:
    """Raise `UnavailableError` where segments were lost, so that nothing says which there were."""
    if reading.snapshot.catalog.snapshot.losses:
        reading.check_rows()
