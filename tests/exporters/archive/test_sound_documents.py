from __future__ import annotations

from pathlib import Path

from exporters.archive.archive import Archive
from exporters.archive.documents import documents
from exporters.archive.sound_documents import chain_keys
from exporters.signing_keys import Signer
from tests.archive_kit import CHAIN
from transforms.stores.folder_store import FolderStore


def test_the_documents_that_are_looked_for_are_those_that_are_written(tmp_path: Path) -> None:
    for signer in (None, Signer(tmp_path / "strata.key")):
        archive = Archive(FolderStore(tmp_path), CHAIN, signer)

        assert chain_keys(archive) == [document.key for document in documents(archive, ())]
