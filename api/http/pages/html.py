"""The archive's page as HTML: what exists, what is missing, and a form that builds a download.

It works without scripts; `static/archive.js` only saves the reader some typing.
"""

from __future__ import annotations

from api.http.pages.view import ArchiveView
from exporters.archive.coverage import Coverage, difference, union
from exporters.archive.figures import Mark, coverage_bar
from exporters.archive.sums import TableSums, totals
from exporters.archive.templating import render
from transforms.blocks import BlockRange
from transforms.tables.registry import HISTORY_TABLES


def archive_page(view: ArchiveView, base: str) -> bytes:
    """The page as UTF-8; `base` leads from where it is shown to the server's root."""
    sums = view.index.tables
    held = view.held
    whole = (held,) if held else ()
    return render(
        "api.http",
        "archive.html",
        view=view,
        base=base,
        held=held,
        published=totals(sums.values()),
        tables=HISTORY_TABLES,
        coverage=[_coverage(name, sums[name], view.loaded, held) for name in sums if held],
        gaps=difference(
            whole, union((*view.loaded, *(r for s in sums.values() for r in s.covered)))
        ),
    )


def _coverage(
    name: str, sums: TableSums, loaded: Coverage, held: BlockRange
) -> tuple[str, TableSums, int, list[Mark]]:
    """A table's name, its sums, how many blocks are not published, and its bar."""
    whole = (held,)
    unpublished = sum(run.last - run.first + 1 for run in difference(whole, sums.covered))
    missing = difference(whole, union((*loaded, *sums.covered)))
    layers = {"loaded": whole, "published": sums.covered, "gap": missing}
    return name, sums, unpublished, coverage_bar(held, layers)
