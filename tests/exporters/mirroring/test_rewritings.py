"""Random rewritings of an archive's past: each has its revision, or the mirror refuses it."""

from __future__ import annotations

import hashlib
import random
import shutil
import tempfile
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

from exporters.archive.archive import Archive
from exporters.mirroring.mirror import mirror
from tests.archive_kit import CHAIN, contents
from tests.exporters.mirroring.rewriting_kit import Account, Rewriting, small_archive
from transforms.errors import IntegrityError
from transforms.stores.folder_store import FolderStore


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An archive, and a mirror of it."""
    folder = tmp_path_factory.mktemp("model")
    mirror(small_archive(folder), folder / "mirror")
    return folder


# Ten thousand take half an hour.
@pytest.mark.timeout(7200)
def test_each_rewriting_of_the_past_has_its_revision_or_is_refused(
    model: Path, rewritings: int
) -> None:
    ends = Counter[str]()

    @settings(max_examples=rewritings, derandomize=rewritings <= 100, database=None)
    @given(st.integers(0, 2**32 - 1))
    def rewrite(seed: int) -> None:
        note(f"the dice are of {seed}")
        with tempfile.TemporaryDirectory() as folder:
            shutil.copytree(model, folder, dirs_exist_ok=True)
            ends[_rewritten(Path(folder), random.Random(seed))] += 1

    rewrite()
    print(dict(ends))
    assert {"refused", "accepted"} <= ends.keys()


def _rewritten(folder: Path, dice: random.Random) -> str:
    """Rewrite an archive a few times, and follow it until it is refused."""
    archive, out = Archive(FolderStore(folder / "archive"), CHAIN), folder / "mirror"
    rewriting = Rewriting(archive, folder, dice)
    last = dice.randrange(3)
    for number in range(last + 1):
        for _ in range(dice.randint(1, 3)):
            rewriting.step(is_honest=number < last or dice.random() < 0.5)
        if not _followed(rewriting, out):
            return "refused"
    return "accepted"


def _followed(rewriting: Rewriting, out: Path) -> bool:
    before, files = Account.of(out / CHAIN), contents(FolderStore(out))
    source = Path(str(rewriting.archive.store.path(CHAIN)))
    contradictions, refusal = Account.of(source).contradictions(before), ""
    try:
        mirror(rewriting.archive, out)
    except IntegrityError as error:
        refusal = str(error)
    if refusal:
        assert not rewriting.is_honest, (rewriting.steps, refusal)
        assert contents(FolderStore(out)) == files, rewriting.steps
        return False
    assert contradictions == [], rewriting.steps
    after = Account.of(out / CHAIN)
    assert after.contradictions(before) == [], rewriting.steps
    for item in after.zips:
        data = (out / CHAIN / item["path"]).read_bytes()
        assert hashlib.sha256(data).hexdigest() == item["sha256"], rewriting.steps
    return True
