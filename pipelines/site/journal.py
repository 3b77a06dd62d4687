"""The journal of publications: which index shards each is about, until it is complete.

The archive's index is written before the pages that follow from it. A publisher that dies between
the two leaves nothing to publish, and a page that nobody would write again; its file of the
journal stays, and the next publisher writes them.
"""

from __future__ import annotations

import fcntl
import json
import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

from exporters.archive.shards import shard_path
from pipelines.site.site import Site
from transforms.errors import IntegrityError

_log = logging.getLogger(__name__)


@contextmanager
def journaled(folder: Path, shards: Iterable[int]) -> Iterator[None]:
    """Keep a file that names the shards the block publishes to; it stays if the block fails."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{uuid4().hex}.json"
    with path.open("x") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        json.dump(sorted(set(shards)), file)
        file.flush()
        yield
        path.unlink()


def finish_interrupted(site: Site) -> int:
    """Write what follows from the shards that dead publishers named; returns how many died."""
    catalog = site.warehouse.catalog()
    if catalog is None:
        return 0
    finished, archive = 0, site.archive(catalog.chain_id)
    for path in sorted(site.journal.glob("*.json")):
        try:
            with path.open() as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                # A publisher that died before it did anything leaves an empty file, or no shard.
                numbers, head = json.loads(file.read() or "[]"), archive.store.head
                if shards := [n for n in numbers if head(archive.key(shard_path(n))) is not None]:
                    # What renders pages takes its time to import, and hardly anybody dies.
                    from exporters.archive.documents import refresh

                    refresh(archive, shards)
                path.unlink()
        except (BlockingIOError, FileNotFoundError):
            continue  # its publisher is at work, or has just finished
        except IntegrityError as error:
            _log.warning("%s", error)  # who looks at the whole archive makes it again
            continue
        finished += 1
    return finished
