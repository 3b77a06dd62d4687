"""The warehouse's log: numbered snapshots, each created once, the newest of which is the truth.

Who writes reads the newest, changes it and creates the next number. Of several only one can create
it; the others read again and change again. No lock and no pointer takes part, so any number of
machines share a folder or a bucket.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import pairwise

from transforms.errors import BusyError, ConflictError, IntegrityError
from transforms.files import MOVE_AWAY
from transforms.objects import ObjectInfo
from transforms.stores.store import Store, asked_together, folder_infos, read_as_is
from transforms.warehouse.log.seen import SeenSnapshots
from transforms.warehouse.log.snapshot import (
    Snapshot,
    dump_snapshot,
    following,
    parse_snapshot,
)

Change = Callable[[Snapshot], Snapshot]
"""From the newest snapshot to the next one's content (its number is ignored); or to the same."""

LOG = "log"
"""The folder of the snapshots."""

LOST_SNAPSHOTS = (
    "a backup was put there, or snapshots were lost; nothing was changed: run strata repair, "
    "which takes in the volumes that the log does not name"
)
"""What happened to a log that is older than it was, and what to do."""

_NAME = re.compile(r"log/(\d{20})\.json")
_TYPE = "application/json"


class Log:
    """The snapshots in a store."""

    def __init__(self, store: Store, records: SeenSnapshots | None = None) -> None:
        """`records` are those of other places that the log has to agree with."""
        self._store = store
        self.records = records or SeenSnapshots()
        self._newest: Snapshot | None = None
        self._is_one_look = False

    @contextmanager
    def one_look(self) -> Iterator[None]:
        """Look at the store once in this block, not whenever somebody asks what is newest.

        For work that should go by one snapshot from its beginning to its end. Commits of this
        log are seen; one that loses its race to another writer looks again.
        """
        self.newest()
        was_one_look, self._is_one_look = self._is_one_look, True
        try:
            yield
        finally:
            self._is_one_look = was_one_look

    def newest(self) -> Snapshot:
        """Return the newest snapshot, an empty one where there is none.

        Raises `IntegrityError` where it is damaged, or older than one that was seen before.
        """
        newest = self._newest
        if newest is None or not (self._is_one_look or self._is_followed_by_none(newest.number)):
            newest, problems = self.newest_sound()
            for problem in problems.values():
                raise IntegrityError(f"{problem}: run strata repair")
            if lost := self.lost_part(newest):
                raise IntegrityError(f"{lost}: {LOST_SNAPSHOTS}")
            self._believe(newest)
        return newest

    def lost_part(self, newest: Snapshot) -> str:
        """What the log lacks of what was seen before; empty if nothing.

        Other processes may have gone on since `newest` was read: the log is read once more.
        """
        seen = self.records.highest(newest.warehouse, newest.chain_id)
        problem = seen.problem(newest.seen) and seen.problem(self.newest_sound()[0].seen)
        return f"the log of {self._store.describe()} {problem}" if problem else ""

    def _believe(self, newest: Snapshot) -> None:
        self._newest = newest
        if newest.number:
            self.records.record(newest.seen)

    def _is_followed_by_none(self, number: int) -> bool:
        """Whether a snapshot is there, and the next one is not.

        They are removed, oldest first: after a long sleep all that was known may be gone.
        """
        keys = (snapshot_key(number + 1), snapshot_key(number))
        following_info, info = asked_together(self._store, self._store.head, keys)
        return following_info is None and info is not None

    def numbers(self) -> list[int]:
        """The numbers of all snapshots that are there, ascending; a missing folder has none.

        In a folder, also those in whose place something else stands, which cannot be read.
        """
        keys = {info.key for info in folder_infos(self._store, LOG)}
        folder = self._store.path(LOG)
        if folder is not None and folder.is_dir():
            keys.update(f"{LOG}/{path.name}" for path in folder.iterdir())
        return sorted(int(match[1]) for match in map(_NAME.fullmatch, keys) if match)

    def read(self, number: int) -> Snapshot:
        """One snapshot. Raises `FileNotFoundError`, `IntegrityError`."""
        key = snapshot_key(number)
        place = self._store.describe(key)
        snapshot = parse_snapshot(read_as_is(self._store, key), place)
        if snapshot.number != number:
            raise IntegrityError(
                f"{place} says that it is snapshot {snapshot.number}: it was renamed or copied"
            )
        return snapshot

    def newest_sound(self) -> tuple[Snapshot, dict[int, str]]:
        """The newest snapshot that can be read, and why later ones cannot, by their numbers.

        An empty one where none can. Raises `ConfigError` for a snapshot of a newer release.
        """
        problems: dict[int, str] = {}
        for number in reversed(self.numbers()):
            try:
                return self.read(number), problems
            except IntegrityError as error:
                problems[number] = str(error).removesuffix(MOVE_AWAY)  # repair goes on beside it
            except FileNotFoundError:
                if number not in self.numbers():
                    return self.newest_sound()  # much newer ones came since it was listed
                problems[number] = f"{self._store.describe(snapshot_key(number))} is no file"
        return Snapshot(), problems

    def commit(self, change: Change, after: Snapshot | None = None) -> Snapshot:
        """Make the next snapshot from the newest one; returns the newest afterwards.

        What changes nothing makes none. `change` is applied again, to what is newest then, whenever
        another writer was faster. `after` stands in for a newest one that cannot be read. Raises
        `BusyError` where a store hides what is there.
        """
        lost = 0
        while True:
            base = after or self.newest()
            if base.number < lost:
                raise BusyError(
                    f"{self._store.describe(snapshot_key(lost))} is said to be there and cannot be "
                    "found: try again; if it stays so, the store cannot hold a warehouse"
                )
            target = change(base)
            if target == base and base.number and not after:
                return base
            created = self.create(following(base, target, self._store.now()))
            if created is not None:
                return created
            lost, after = base.number + 1, None

    def create(self, snapshot: Snapshot) -> Snapshot | None:
        """Create a snapshot; None where another one has its number."""
        key, data = snapshot_key(snapshot.number), dump_snapshot(snapshot)
        sha256 = hashlib.sha256(data).hexdigest()
        try:
            self._store.put_if_absent(key, data, content_type=_TYPE, sha256=sha256, immutable=True)
        except ConflictError:
            self._newest = None
            return None
        self._believe(snapshot)
        return snapshot

    def forget_skipped(self) -> None:
        """Delete the snapshots before the newest number that was skipped.

        A process that goes by one of them sees that it is gone, and looks for the newest.
        """
        numbers = self.numbers()
        last = max((before for before, after in pairwise(numbers) if after > before + 1), default=0)
        for number in numbers:
            if number <= last:
                self._store.delete(snapshot_key(number))

    def begin(self) -> Snapshot:
        """The newest snapshot; the first one, which is empty, is made where there is none.

        It is there before any volume is: volumes without a log are one that was lost. Raises
        `ConfigError` where the store cannot keep a log.
        """
        newest = self.newest()
        return newest if newest.number else self.commit(lambda base: base)


def snapshot_key(number: int) -> str:
    """Where a snapshot lies in the warehouse."""
    return f"{LOG}/{number:020d}.json"


def settled_snapshots(infos: Iterable[ObjectInfo], horizon: float) -> list[int]:
    """The numbers of listed snapshots that were followed before the horizon, ascending.

    It is long before now: a writer that stopped for so long between reading and writing would find
    its number free again. Times are those of the store, whatever this machine's clock.
    """
    matches = ((_NAME.fullmatch(info.key), info.modified) for info in infos)
    listed = sorted((int(match[1]), modified) for match, modified in matches if match)
    followed = (before for (before, _), (_, when) in pairwise(listed) if when < horizon)
    last = max(followed, default=0)
    return [number for number, _ in listed if number <= last]
