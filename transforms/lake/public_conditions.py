"""`strata.conditions`: the archive's `conditions.json` as a view, asked where the archive is read.

The address stands in a macro of its own, so that the view can be made while nothing is there.
"""

from __future__ import annotations

from collections.abc import Iterator

from transforms.duck import quote_text

ADDRESS_MACRO = "conditions_file"
"""The macro of the schema `strata` that has the address of the document, in a list."""

NO_DAYS = '{"days": []}'
"""A document without any day, over which the view can be made."""

_DAY = (
    '"date" DATE, condition VARCHAR, "from" BIGINT, "to" BIGINT, last_modified TIMESTAMPTZ, '
    "reason VARCHAR"
)
_QUERY = f"""
    select "date", condition, "from" as first_block, "to" as last_block, last_modified, reason
    from (
      select unnest(days, recursive := true)
      from read_json(strata.{ADDRESS_MACRO}(), columns = {{days: 'STRUCT({_DAY})[]'}})
    )
"""  # noqa: S608 - of constants
_MEANING = (
    "Each UTC day: available, degraded (a table lacks some of its blocks), pending (it has the "
    "newest block) or missing; the blocks of its segments; when a file of it was last replaced; "
    "and why. What conditions.json says now."
)


def conditions_statements(address: str) -> Iterator[str]:
    """What makes the view over the document in the chain's folder at an address."""
    document = quote_text(f"{address}/conditions.json")
    yield f"create macro strata.{ADDRESS_MACRO}() as [{document}]"
    yield f"create view strata.conditions as {_QUERY}"
    yield f"comment on view strata.conditions is {quote_text(_MEANING)}"
