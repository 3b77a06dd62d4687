"""Rows that several volumes have, against what plain counting says."""

from __future__ import annotations

import random
from array import array
from collections import defaultdict
from pathlib import Path

import pytest

from transforms.lookups.identities import IDENTITIES, Identities
from transforms.lookups.index_file import IndexConnections, IndexFile, new_index, write_fact
from transforms.lookups.repeated import repeated

Rows = dict[tuple[int, int], int]
"""By the halves of its identity, the last time of a row."""


def volumes_of(folder: Path, volumes: list[Rows]) -> list[Identities]:
    connections = IndexConnections()
    identities = []
    for number, rows in enumerate(volumes):
        path = folder / f"{number}.sqlite"
        ordered = sorted(rows)
        columns = (
            array("Q", [high for high, _ in ordered]),
            array("Q", [low for _, low in ordered]),
            array("q", [rows[halves] for halves in ordered]),
        )
        with new_index(path) as file:
            for name, column in zip(IDENTITIES, columns, strict=True):
                write_fact(file, f"withdrawals.{name}", column.tobytes())
        identities.append(Identities(IndexFile(path, connections), "withdrawals"))
    return identities


def expected(volumes: list[Rows]) -> dict[bytes, int]:
    times = defaultdict[bytes, list[int]](list)
    for rows in volumes:
        for (high, low), written in rows.items():
            times[((high << 64) + low).to_bytes(16)[::-1]].append(written)
    return {identity: max(own) for identity, own in times.items() if len(own) > 1}


@pytest.mark.parametrize("seed", range(6))
def test_rows_of_several_volumes_are_found_with_their_last_times(seed: int, tmp_path: Path) -> None:
    numbers = random.Random(seed)
    # Few first halves, so that many rows share them without being the same.
    most = 2**64 if seed % 2 else 300
    pool = [(numbers.randrange(most), numbers.randrange(4)) for _ in range(400)]
    pool += [(0, 0), (2**64 - 1, 2**64 - 1)]
    volumes: list[Rows] = [
        {halves: numbers.randrange(-5, 100) for halves in numbers.sample(pool, size)}
        for size in (0, 1, 150, 200, 400)
    ]
    assert repeated(volumes_of(tmp_path, volumes)).times == expected(volumes)
    assert expected(volumes)


def test_of_rows_that_are_in_one_volume_each_only_the_first_halves_are_read(tmp_path: Path) -> None:
    volumes = volumes_of(tmp_path, [{(1, 5): 3, (1, 6): 3}, {(2, 5): 4}])
    assert repeated(volumes).times == {}
    assert repeated([]).times == {}
    path = tmp_path / "halves.sqlite"
    with new_index(path) as file:
        write_fact(file, "withdrawals.highs", array("Q", [7, 8]).tobytes())
    halves = Identities(IndexFile(path, IndexConnections()), "withdrawals")
    assert repeated([halves, *volumes[1:]]).times == {}


@pytest.mark.parametrize("seed", range(6))
def test_what_is_known_of_other_volumes_changes_nothing(seed: int, tmp_path: Path) -> None:
    """Volumes come and go: some have only rows of their own, some have rows of others."""
    numbers = random.Random(seed)
    rows = [
        {(numbers.randrange(2**64) if number % 3 else n, n): n for n in range(20)}
        for number in range(12)
    ]
    volumes, known = volumes_of(tmp_path, rows), None
    for _ in range(20):
        chosen = sorted(numbers.sample(range(12), numbers.randrange(13)))
        known = repeated([volumes[number] for number in chosen], known)
        assert known.times == expected([rows[number] for number in chosen])
    for number in range(12):
        known = repeated(volumes[: number + 1], known)
        assert known.times == expected(rows[: number + 1])


def test_of_known_volumes_nothing_is_read_where_only_others_are_added(tmp_path: Path) -> None:
    volumes = volumes_of(tmp_path, [{(1, 5): 3}, {(1, 5): 4, (2, 5): 4}, {(3, 5): 4}])
    known = repeated(volumes[:2])
    assert len(known.times) == 1
    for volume in volumes[:2]:
        volume.index.close()
        volume.index.path.unlink()
    assert repeated(volumes, known).times == known.times
