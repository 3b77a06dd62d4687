"""Faults to seed: texts of the product with others in their place. Most are about an order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]

_LOG = "transforms/warehouse/log/log.py"
_SWEEPING = "transforms/warehouse/merge/sweep.py"
_SNAPSHOT = "transforms/warehouse/log/snapshot.py"
_MERGING = "transforms/warehouse/merge/compaction.py"
_PUBLICATION = "exporters/publishing/publication.py"
_STAGED = "exporters/exports/staged_zips.py"


@dataclass(frozen=True, slots=True)
class Mutant:
    """A fault: (file, old text, new text) of each place; the old text stands there once."""

    name: str
    edits: tuple[tuple[str, str, str], ...]


def mutated(mutant: Mutant) -> Mapping[str, str]:
    """The files of a mutant with their texts. Raises `ValueError` where an old text is not once."""
    texts: dict[str, str] = {}
    for file, old, new in mutant.edits:
        text = texts.get(file) or (ROOT / file).read_text()
        if text.count(old) != 1:
            raise ValueError(
                f"mutant {mutant.name!r}: {file} has {text.count(old)} times, not once, {old!r}: "
                "give what stands there now in tests/model/mutants.py"
            )
        texts[file] = text.replace(old, new)
    return texts


def _one(name: str, file: str, old: str, new: str) -> Mutant:
    return Mutant(name, ((file, old, new),))


_DELETE_OLD = "for volume in volumes:\n            backing.store.delete(volume.key)"

MUTANTS = (
    _one(
        "a commit believes that its number was free",
        _LOG,
        "            self._newest = None\n            return None",
        "            pass",
    ),
    _one(
        "what was dropped is swept at once",
        _SWEEPING,
        "if since < now - grace_seconds]",
        "if since <= now]",
    ),
    _one(
        "what is not named yet is swept at once",
        _SWEEPING,
        "info.modified < now - orphan_seconds",
        "info.modified < now + orphan_seconds",
    ),
    _one(
        "nothing is swept but snapshots",
        _SWEEPING,
        "(*due, *orphans) if is_removable(key, runs)",
        "(*due, *orphans) if not key",
    ),
    _one(
        "the newest snapshot is swept",
        _LOG,
        "before for (before, _), (_, when) in pairwise(listed) if when < horizon",
        "number for number, when in listed if when < horizon",
    ),
    _one(
        "what was dropped before is forgotten",
        _SNAPSHOT,
        "dropped=old | fresh",
        "dropped=fresh",
    ),
    _one(
        "merging joins volumes over a gap",
        "transforms/warehouse/merge/merge_plan.py",
        "joins = bool(run) and run[-1].blocks.joins(volume.blocks)",
        "joins = bool(run)",
    ),
    _one(
        "a merge does not look whether its volumes are still named",
        _MERGING,
        "if len(rest) + len(old) != len(newest.volumes):",
        "if not newest.volumes:",
    ),
    _one(
        "merging deletes the old volumes after the commit",
        _MERGING,
        "        done.append(",
        f"        {_DELETE_OLD}\n        done.append(",
    ),
    _one(
        "merging deletes the old volumes before the commit",
        _MERGING,
        "        snapshot = _replaced(",
        f"        {_DELETE_OLD}\n        snapshot = _replaced(",
    ),
    _one(
        "a load does not look whether its blocks are there by now",
        _SNAPSHOT,
        "elif not any(volume.blocks.overlaps(other.blocks) for other in history):",
        "elif volume not in history:",
    ),
    _one(
        "a load forgets the segments that it lost a race for only in part",
        "transforms/warehouse/load/loader.py",
        "            if catalog.holds(segment.blocks):\n",
        "            if catalog.segments(volume.blocks):\n",
    ),
    _one(
        "a file that was put right stays refused",
        "transforms/warehouse/survey.py",
        "return newest.quarantined(fresh, released)",
        "return newest.quarantined(fresh, released[:0])",
    ),
    _one(
        "an older log is believed",
        "transforms/warehouse/log/seen.py",
        "if newest.warehouse != self.warehouse:",
        "if self.warehouse:",
    ),
    _one(
        "repair goes on naming what is damaged",
        _SNAPSHOT,
        "            if bad.isdisjoint(volume.row_files)\n",
        "",
    ),
    _one(
        "the index has the entry before the ZIP is there",
        _PUBLICATION,
        "    entry = request.entry()\n",
        "    entry = request.entry()\n"
        "    early = [Published(entry.path, Outcome.CREATED, entry)]\n"
        "    refresh(archive, (), [INDEX], _naming(archive, early))\n",
    ),
    _one(
        "a ZIP gets no hash file",
        _PUBLICATION,
        "    put_hash_file(archive, entry)\n",
        "",
    ),
    _one(
        "a shard forgets the entries that it had",
        _PUBLICATION,
        "put_shard(archive, number, shard.including(entries).to_bytes())",
        "put_shard(archive, number, Shard(archive.chain_id, number).including(entries).to_bytes())",
    ),
    _one(
        "a segment counts as published once one table is",
        "pipelines/site/completing.py",
        "counts[b] < tables",
        "counts[b] < 1",
    ),
    Mutant(
        "a part is published without a proof",
        (
            (_STAGED, "    if sha256 != recorded:", "    if not sha256:"),
            (_STAGED, "digest.hexdigest()) != expected", "receipt.sha256) != expected"),
        ),
    ),
)
