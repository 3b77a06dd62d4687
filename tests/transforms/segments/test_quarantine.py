"""What is kept of a refused file: its row in a document, and the key of its copy."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transforms.objects import ObjectInfo, StoredFile
from transforms.segments.quarantine import QuarantinedFile, copy_key
from transforms.stores.store import checked_key

_HOSTILE_KEYS = [
    *(
        "../../etc/passwd.zip",
        "a/b.zip",
        "a_b.zip",
        ".zip",
        "..zip",
        "x" * 900 + ".zip",
        "鏈" * 300,
        "é😀.zip",
    ),
    *("CON.zip", "new\nline.zip", "\udcff.zip", "quo'te\".zip", "%2e%2e.zip", "a\\b.zip"),
]
_HASH = "ab" * 32


@given(
    st.text(min_size=1, max_size=200) | st.sampled_from(_HOSTILE_KEYS),
    st.text(max_size=50),
    st.none() | st.builds(StoredFile, st.text(), st.integers(0), st.just(_HASH)),
    st.just(0) | st.integers(600),
)
def test_a_refused_file_comes_back_from_its_row(
    key: str, reason: str, copy: StoredFile | None, memory_mb: int
) -> None:
    refused = QuarantinedFile(ObjectInfo(key, 10, "v1"), reason, copy, memory_mb)
    assert QuarantinedFile.parse(json.loads(json.dumps(refused.dump()))) == refused
    assert refused.stands(memory_mb=600) is (copy is not None)
    assert refused.stands(memory_mb=memory_mb + 1) is (copy is not None and memory_mb == 0)


@pytest.mark.parametrize("key", _HOSTILE_KEYS, ids=lambda key: repr(key[:20]))
def test_a_copy_lies_in_the_quarantine_whatever_its_file_is_called(key: str) -> None:
    place = checked_key(copy_key(key, _HASH))
    folder, _, name = place.partition("/")
    assert folder == "quarantine"
    assert name.endswith(f".{_HASH}.zip")
    assert "/" not in name
    assert name.isascii()
    assert len(name) < 250


def test_keys_that_look_alike_are_kept_apart() -> None:
    assert len({copy_key(key, _HASH) for key in _HOSTILE_KEYS}) == len(_HOSTILE_KEYS)
