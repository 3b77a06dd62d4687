"""Manifests are believed as far as they are whole: flipped bytes are damage, and nothing else."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.transforms.warehouse_kit import history_segment, load_folder
from transforms.errors import IntegrityError
from transforms.warehouse.manifests.manifest import (
    manifest_receipts,
    manifest_segments,
    read_about,
)
from transforms.warehouse.manifests.shapes import UNSTORED

_FLIPS = 200


def _about(path: Path) -> object:
    return read_about(path, UNSTORED)


def _receipts(path: Path) -> object:
    return manifest_receipts([path])


def test_any_flipped_byte_is_damage_or_changes_nothing(tmp_path: Path) -> None:
    history_segment(tmp_path / "source", first=1, last=2)
    load_folder(tmp_path / "warehouse", tmp_path / "source")
    path = min((tmp_path / "warehouse" / "manifests").iterdir())
    sound = path.read_bytes()
    receipts = manifest_receipts([path])
    places = random.Random(len(sound))
    damaged = 0

    for number in range(_FLIPS):
        flipped = bytearray(sound)
        flipped[places.randrange(len(sound))] ^= 1 << places.randrange(8)
        copy = tmp_path / f"{number}.parquet"
        copy.write_bytes(flipped)
        for read in (_about, manifest_segments, _receipts):
            try:
                read(copy)
            except IntegrityError:
                damaged += 1

    assert receipts
    assert damaged > _FLIPS / 4


def test_of_several_manifests_the_damaged_one_is_named(tmp_path: Path) -> None:
    history_segment(tmp_path / "source", first=1, last=2)
    load_folder(tmp_path / "warehouse", tmp_path / "source")
    path = min((tmp_path / "warehouse" / "manifests").iterdir())
    cut = tmp_path / "cut.parquet"
    cut.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(IntegrityError, match=r"a manifest is damaged \(.*cut\.parquet.*repair"):
        manifest_receipts([path, cut])
