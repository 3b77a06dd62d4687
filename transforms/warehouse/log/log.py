"""The warehouse's log: numbered documents, each created once, the newest of which is the truth.

Who writes reads the newest, changes it and creates the next number. Of several only one can create
it; the others read again and change again. No lock and no pointer takes part, so any number of
machines share a folder or a bucket.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

from transforms.errors import BusyError, ConflictError, IntegrityError
from transforms.moments import Moment
from transforms.objects import ObjectInfo
from transforms.stores.store import Store, asked_together, read_as_is
from transforms.warehouse.log.document import (
    Document,
    dump_document,
    following,
    new_warehouse,
    parse_document,
)
from transforms.warehouse.log.newest_generation import NewestGeneration, check_seen

Change = Callable[[Document], Document | None]
"""From the newest generation to the next one's content (its number is ignored); None: no change."""

LOG = "log"
"""The folder of the documents."""

SETTLED_SECONDS = 900.0
"""How long a document stays after it was followed, at least: longer than any commit takes.

A writer that stopped for so long between reading and writing may find its number free again.
"""

KEPT_DOCUMENTS = 64
"""How many of the newest documents stay, however old."""

_SHORT_SECONDS = 5.0  # no document that was followed is removed so soon
_FOLDER = f"{LOG}/"
_NAME = re.compile(r"log/(\d{20})\.json")
_TYPE = "application/json"


@dataclass(slots=True)
class _Look:
    """A block of `Log.one_look`: its number, and whether it has asked the store already."""

    number: int
    is_taken: bool = False


class Log:
    """The documents in a store. `cache` is where this machine remembers the newest it has seen."""

    def __init__(self, store: Store, cache: Path) -> None:
        self._store = store
        self._memory = NewestGeneration(cache)
        self._newest: tuple[Document, str] | None = None
        self._confirmed: tuple[int, Moment] | None = None
        self._looks = 0
        self._look: _Look | None = None

    @contextmanager
    def one_look(self) -> Iterator[None]:
        """Look at the store once in this block, not whenever somebody asks what is newest.

        For work that should go by one generation from its beginning to its end. Commits of this
        log are seen; one that loses its race to another writer looks again.
        """
        if self._look is not None:
            yield
            return
        self._looks += 1
        self._look = _Look(self._looks)
        try:
            yield
        finally:
            self._look = None

    def look_again(self) -> None:
        """Ask the store at the next question, in a block of `one_look` too."""
        if self._look is not None:
            self._look.is_taken = False

    @property
    def look(self) -> int:
        """The number of the block of `one_look` that lasts; 0 outside of any."""
        return self._look.number if self._look else 0

    def newest(self) -> Document | None:
        """The newest generation, None where there is no document.

        Raises `IntegrityError` where it is damaged, or older than what this machine has seen.
        """
        entry = self._find()
        return entry[0] if entry else None

    def is_outdated(self, generation: int) -> bool:
        """Whether there is a newer generation; two requests to the store at the most."""
        next_key, key = document_key(generation + 1), document_key(generation)
        confirmed, moment = self._confirmed or (0, Moment.now())
        if confirmed == generation and moment.passed() < _SHORT_SECONDS:
            return self._store.head(next_key) is not None
        # Documents are removed, oldest first: after a long sleep all that was known may be gone.
        following_info, info = asked_together(self._store, self._store.head, (next_key, key))
        if following_info is None and info is not None:
            self._confirmed = (generation, Moment.now())
            return False
        return True

    def _is_newest(self, generation: int) -> bool:
        """Whether what is known is the newest, as far as this block has to know."""
        if self._look is not None and self._look.is_taken:
            return True
        return not self.is_outdated(generation)

    def numbers(self) -> list[int]:
        """The numbers of all documents that are there, ascending; a missing folder has none."""
        folder = self._store.path(LOG)
        if folder is not None and not folder.is_dir():
            return []
        # Any other error of the listing is one: who may not list a bucket must not begin a new log.
        return [number for number, _ in _documents(self._store.list(_FOLDER))]

    def read(self, generation: int) -> Document:
        """One document. Raises `FileNotFoundError`, `IntegrityError`."""
        return self._parsed(read_as_is(self._store, document_key(generation)), generation)

    def last_seen(self) -> Document | None:
        """The newest generation that this machine has seen, whatever the store says now."""
        return self._memory.document()

    def _parsed(self, data: bytes, generation: int) -> Document:
        place = self._store.describe(document_key(generation))
        try:
            document = parse_document(data, place)
        except IntegrityError as error:
            raise IntegrityError(f"{error}: run strata repair") from error
        if document.generation != generation:
            raise IntegrityError(
                f"{place} says that it is generation {document.generation}: it was renamed or "
                "copied; run strata repair"
            )
        return document

    def commit(self, change: Change, forget: Collection[str] = ()) -> Document:
        """Make the next generation from the newest one; returns the newest afterwards.

        `change` is applied again, to what is newest then, whenever another writer was faster.
        `forget` are dropped files that were removed. Raises `BusyError` where a store hides what is
        there, or this process stood still for so long that its number may be free again.
        """
        lost = 0
        while True:
            began = Moment.now()
            base, parent = self._find() or (new_warehouse(), "")
            if base.generation < lost:
                raise BusyError(
                    f"{self._store.describe(document_key(lost))} is said to be there and cannot be "
                    "found: try again; if it stays so, the store cannot hold a warehouse"
                )
            target = change(base)
            if target is None:
                return base
            now = self._store.now()  # what is dropped then is swept by the same clock
            created = self.create(following(base, parent, target, forget, now))
            if created is not None:
                self._check_in_time(base, began)
                return created
            lost = base.generation + 1

    def _check_in_time(self, base: Document, began: Moment) -> None:
        """Of documents the oldest go first: while the one before is there, this one was not."""
        seconds = began.passed()
        if seconds < SETTLED_SECONDS / 3 or not base.generation:
            return
        if self._store.head(document_key(base.generation)) is None:
            self._newest = None
            raise BusyError(
                f"this process stood still for {seconds:.0f} seconds while it wrote to "
                f"{self._store.describe('log')}, which others did meanwhile: run it again, it goes "
                "on with what is there"
            )

    def create(self, document: Document) -> Document | None:
        """Create a document; None where another one has its number.

        An answer that got lost is no harm: the same bytes there are ours, by the commit's own id.
        """
        data = dump_document(document)
        sha256 = hashlib.sha256(data).hexdigest()
        if not self._put(document.generation, data, sha256):
            self._newest = None
            return None
        self._newest = (document, sha256)
        self._memory.keep(document, data)
        return document

    def bridge(self, document: Document, number: int) -> bool:
        """Repeat the newest document at a lower number; False where another one has it.

        Who knows the document before a gap asks whether the next number is there: see
        `is_outdated`.
        """
        data = dump_document(replace(document, generation=number))
        return self._put(number, data, hashlib.sha256(data).hexdigest())

    def _put(self, number: int, data: bytes, sha256: str) -> bool:
        key = document_key(number)
        try:
            self._store.put_if_absent(key, data, content_type=_TYPE, sha256=sha256, immutable=True)
        except ConflictError:
            return False
        except OSError:
            if not self._holds(key, data):
                raise
        return True

    def begin(self) -> Document:
        """The newest generation; the first one, which is empty, is made where there is none.

        It is there before any volume is: volumes without a log are one that was lost. Raises
        `ConfigError` where the store cannot keep a log.
        """
        return self.newest() or self.commit(lambda base: None if base.generation else base)

    def _holds(self, key: str, data: bytes) -> bool:
        with suppress(OSError):
            return read_as_is(self._store, key) == data
        return False

    def _find(self) -> tuple[Document, str] | None:
        cache = self._newest
        is_newest = cache is not None and self._is_newest(cache[0].generation)
        if self._look is not None:
            self._look.is_taken = True
        if is_newest:
            return cache
        last_seen, seen_sha256 = self._memory.newest() or (None, "")
        numbers = self.numbers()
        if not numbers:
            check_seen(last_seen, None, self._store.describe("log"))
            return None
        key = document_key(numbers[-1])
        try:
            data = read_as_is(self._store, key)
        except FileNotFoundError:
            if self.numbers()[-1:] == numbers[-1:]:
                raise
            return self._find()  # much newer ones came since it was listed
        sha256 = hashlib.sha256(data).hexdigest()
        if last_seen is not None and (sha256, numbers[-1]) == (seen_sha256, last_seen.generation):
            newest = (last_seen, sha256)  # the very bytes: there is nothing to parse or to compare
        else:
            newest = (self._parsed(data, numbers[-1]), sha256)
            check_seen(last_seen, newest[0], self._store.describe(key))
            self._memory.keep(newest[0], data)
        self._newest = newest
        return newest


def document_key(generation: int) -> str:
    """Where a generation's document lies in the warehouse."""
    return f"{_FOLDER}{generation:020d}.json"


def is_document_key(key: str) -> bool:
    """Whether a file of the log's folder has the name of a document."""
    return _NAME.fullmatch(key) is not None


def settled_documents(infos: Iterable[ObjectInfo], before: int = 0) -> list[int]:
    """The numbers of listed documents that nobody needs who reads or writes now, ascending.

    All but some of the newest, and all `before` a number; times are those of the store, whatever
    this machine's clock.
    """
    listed = _documents(infos)
    if not listed:
        return []
    horizon = listed[-1][1] - SETTLED_SECONDS
    old = [number for (number, _), (_, modified) in pairwise(listed) if modified < horizon]
    many = old[: max(0, len(listed) - KEPT_DOCUMENTS)]
    return sorted({*many, *(number for number, _ in listed if number < before)})


def _documents(infos: Iterable[ObjectInfo]) -> list[tuple[int, float]]:
    matches = ((_NAME.fullmatch(info.key), info.modified) for info in infos)
    return sorted((int(match[1]), modified) for match, modified in matches if match)
