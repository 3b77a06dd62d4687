from __future__ import annotations

import hashlib
import platform
import random
import string
import subprocess
import sys
import tracemalloc
import zlib
from collections.abc import Iterator
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from isal import isal_zlib

from exporters.zips.runs import DEFAULT_LEVEL, LEVELS, STREAM_END, Run, deflate, in_blocks
from transforms.errors import ConfigError

FULL_FLUSH = b"\x00\x00\xff\xff"
ROWS = [b"%d,%x,SIDE_BUY\n" % (n, random.Random(n).getrandbits(64)) for n in range(30_000)]
TEXT = b"".join(ROWS)  # 0.9 MB: several feeds of the compressor


def deflated(text: bytes, level: int = DEFAULT_LEVEL, cut: int = 1 << 20) -> tuple[bytes, Run]:
    out: list[bytes] = []
    pieces = (text[at : at + cut] for at in range(0, len(text), cut))
    run = deflate(pieces, out.append, level)
    return b"".join(out), run


def inflated(stream: bytes) -> bytes:
    return zlib.decompress(stream, wbits=-15)


@given(st.lists(st.binary(max_size=40)), st.integers(1, 50))
def test_pieces_are_cut_into_equal_blocks_and_only_the_last_is_shorter(
    pieces: list[bytes], size: int
) -> None:
    blocks = list(in_blocks(pieces, size))
    assert b"".join(blocks) == b"".join(pieces)
    assert all(len(block) == size for block in blocks[:-1])
    assert all(0 < len(block) <= size for block in blocks[-1:])


@pytest.mark.parametrize("level", LEVELS)
def test_a_run_holds_its_text_and_says_how_long_it_is(level: int) -> None:
    stream, run = deflated(TEXT, level)
    assert inflated(stream + STREAM_END) == TEXT
    assert run == Run(len(stream), len(TEXT), zlib.crc32(TEXT))


@given(
    st.sampled_from(LEVELS),
    st.integers(1, len(TEXT)),
    st.lists(st.integers(0, len(TEXT)), max_size=30),
)
def test_a_run_is_the_same_bytes_however_its_text_arrives(
    level: int, length: int, cuts: list[int]
) -> None:
    text, ends = TEXT[:length], sorted({*(cut % length for cut in cuts), length})
    out = bytearray()
    run = deflate((text[at:end] for at, end in pairwise([0, *ends])), out.extend, level)
    assert (bytes(out), run) == deflated(text, level, length)


@pytest.mark.parametrize("level", LEVELS)
def test_a_run_ends_on_a_byte_and_refers_to_nothing_before_it(level: int) -> None:
    first, second = deflated(TEXT, level)[0], deflated(TEXT[:-7], level)[0]
    assert first.endswith(FULL_FLUSH)
    assert inflated(second + STREAM_END) == TEXT[:-7]  # by itself
    assert inflated(first + second + first + STREAM_END) == TEXT + TEXT[:-7] + TEXT


def digest_of_many_beginnings() -> str:
    """The hash of the runs of texts that begin in 20,000 ways and take the beginning up again."""
    letters = random.Random(5)
    rest = "".join(letters.choices("abcdefgh", k=300))
    digest = hashlib.sha256()
    for _ in range(20_000):
        begin = "".join(letters.choices(string.ascii_letters, k=4)) + "_zqwxy;"
        digest.update(deflated((begin + rest[:40] + begin + rest[40:]).encode())[0])
    return digest.hexdigest()


def test_the_bytes_follow_from_the_text_wherever_the_compressor_lies_in_memory() -> None:
    """ISA-L's first step mixes the address of its state into the table of what it has seen.

    Addresses differ from process to process; each hits others of the beginnings.
    """
    print_digest = f"from {__name__} import digest_of_many_beginnings as d; print(d())"
    told = {
        subprocess.check_output([sys.executable, "-c", print_digest], text=True).strip()
        for _ in range(2)
    }
    assert told == {digest_of_many_beginnings()}


@pytest.mark.parametrize("at", [0, 300_000])
def test_a_byte_that_is_not_utf8_is_refused(at: int) -> None:
    with pytest.raises(ValueError, match=f"byte FF at {at} of a CSV"):
        deflated(TEXT[:at] + b"\xff" + TEXT[at:])


@given(st.lists(st.text(max_size=200).map(str.encode), max_size=8), st.sampled_from(LEVELS))
def test_runs_in_a_row_are_the_stream_of_their_texts_in_a_row(
    texts: list[bytes], level: int
) -> None:
    runs = [deflated(text, level) for text in texts]
    assert inflated(b"".join(stream for stream, _ in runs) + STREAM_END) == b"".join(texts)
    total = sum((run for _, run in runs), start=Run())
    whole = b"".join(texts)
    assert (total.plain, total.crc32) == (len(whole), zlib.crc32(whole))


def test_crc32s_combine_beyond_four_gigabytes() -> None:
    mebibyte, crc, run = bytes(1 << 20), 0, Run()
    for _ in range(4100):
        crc = isal_zlib.crc32(mebibyte, crc)
        run += Run(10, len(mebibyte), zlib.crc32(mebibyte))
    assert run == Run(41_000, 4100 << 20, crc)


def test_no_text_gives_no_bytes() -> None:
    assert deflated(b"") == (b"", Run())


@pytest.mark.parametrize("level", [-1, 3, 9])
def test_a_level_that_depends_on_the_processor_or_does_not_exist_is_refused(level: int) -> None:
    with pytest.raises(ConfigError, match=f"{level} is not a deflate level"):
        deflate([b"a"], list[bytes]().append, level)


def test_memory_stays_bounded_whatever_the_length() -> None:
    def endless() -> Iterator[bytes]:
        yield from (TEXT for _ in range(60))

    tracemalloc.start()
    run = deflate(endless(), lambda _: None, DEFAULT_LEVEL)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert run.plain == 60 * len(TEXT)
    assert peak < 4 * len(TEXT)


@pytest.mark.skipif(platform.machine() != "x86_64", reason="other processors deflate differently")
def test_the_bytes_are_those_that_are_published_already() -> None:
    """A compressor that writes other bytes makes every archive republish: that must be a choice."""
    hashes = [hashlib.sha256(deflated(TEXT, level)[0]).hexdigest()[:16] for level in LEVELS]
    assert hashes == ["2c0fda3f2a452465", "e7c4fb4f40304d82", "311669d636369399"]
