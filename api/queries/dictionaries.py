"""Records as dictionaries by field name, in bulk: what both shells write their messages from.

A shell says how it names fields, and which kinds of values it wants otherwise than records have
them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import chain, islice, repeat
from typing import Any

from api.core.descriptors import Field, Message, ScalarType
from api.queries.pagination import Record

Dictionary = dict[str, Any]
Converter = Callable[[Sequence[Record]], list[Dictionary]]
Names = Callable[[Field], str]
Kinds = Mapping[ScalarType, Callable[[Any], Any]]
_Change = Callable[[list[Dictionary]], None]
_Convert = Callable[[Sequence[Any]], Iterable[Any]]


def converter(message: Message, name: Names, kinds: Kinds) -> Converter:
    """The function that converts records of a message: made once, so that a row costs little.

    What is optional and None is left out; a message that is None stays None.
    """
    names = [name(field) for field in message.fields]
    optional = [name(field) for field in message.fields if field.optional]
    changes = [_change(field, name, kinds) for field in message.fields]
    conversions = [change for change in changes if change is not None]

    def convert(records: Sequence[Record]) -> list[Dictionary]:
        entries = [*map(dict, map(zip, repeat(names), records))]
        for key in optional:
            for entry in entries:
                if entry[key] is None:
                    del entry[key]
        for change in conversions:
            change(entries)
        return entries

    return convert


def _change(field: Field, name: Names, kinds: Kinds) -> _Change | None:
    """How a field of dictionaries is converted; None: it stays as it is."""
    kind, key = field.type, name(field)
    if isinstance(kind, Message):
        convert: _Convert = converter(kind, name, kinds)
    elif kind in kinds:
        if not (field.repeated or field.optional):
            return partial(_change_all, key, kinds[kind])
        convert = partial(map, kinds[kind])
    else:
        return None
    return partial(_change_lists if field.repeated else _change_set, key, convert)


def _change_all(key: str, change: Callable[[Any], Any], entries: list[Dictionary]) -> None:
    for entry in entries:
        entry[key] = change(entry[key])


def _change_set(key: str, convert: _Convert, entries: list[Dictionary]) -> None:
    """Convert the values that are there, together."""
    having = [entry for entry in entries if entry.get(key) is not None]
    for entry, value in zip(having, convert([entry[key] for entry in having]), strict=True):
        entry[key] = value


def _change_lists(key: str, convert: _Convert, entries: list[Dictionary]) -> None:
    """Convert the items of all lists together."""
    items = iter(convert([*chain.from_iterable([entry[key] for entry in entries])]))
    for entry in entries:
        entry[key] = [*islice(items, len(entry[key]))]
