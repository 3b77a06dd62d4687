"""A site in a state that no command leaves: old files among new ones, removed files.

Each try disturbs a site with a history: two segments are published, one of them is corrected, and a
third segment follows. Then every command that reads is run. A command that ends with exit code 0
must give the newest rows and text, and never older or fewer ones. After the remedies, the site is
either whole or reported.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

from tests.faults.children import Ended, in_child, use
from tests.faults.commands import run_strata
from tests.faults.orders import Order
from tests.faults.places import (
    BLOCKS,
    Place,
    archive_files,
    empty_home,
    undisturbed,
    write_segments,
)
from tests.faults.results import Result, ending_of, of_ending
from tests.faults.scenarios import LOAD, PUBLISH
from tests.segments_kit import KIT_CHAIN

_LAST = 3 * BLOCKS
_CODES = frozenset((0, 1, 2, 3, 4, 5, 6, 7))
_ENV = {"STRATA_BATCH": "1"}
_RANGE = ("--from", "1", "--to", str(_LAST))
_READERS: Mapping[str, Sequence[str]] = {
    "fetch": ("fetch", "archive", "--table", "orders", *_RANGE, "--out", "got"),
    "mirror": ("fetch", "archive", "--all", "--out", "mirror"),
    "export": ("export", "orders", "1", str(_LAST), "--out", "exports"),
    "sql": ("sql", "select count(*), sum(price), sum(size) from orders"),
}
_HEADS = ("index.json", "SHA256SUMS")
_CURRENT_STATE = ("orders_live", "parties", "state_manifest")
_LOST = "warning: rows are missing"
_REMEDIES = (("repair", "--json"), LOAD, PUBLISH)


@dataclass(frozen=True, slots=True)
class Disturbance:
    """A change of a site's files: `apply` makes it and returns its description."""

    name: str
    apply: Callable[[Place, Sequence[Path], Random], str]


class States:
    """The tries of one process, at one place."""

    def __init__(self, folder: Path, order: Order) -> None:
        self.place = Place(folder / "home", folder / "notes")
        self._order = order
        self._older = (folder / "older-0", folder / "older-1")
        self._newest = folder / "newest"
        self._foreign = folder / "foreign"

    def results(self) -> Iterator[Result]:
        """Disturb the site in a way of each kind in turn, and run the commands."""
        self._make_history()
        truth = {name: self.reading(name) for name in _READERS}
        assert all(ended.code == 0 for ended, _ in truth.values()), truth
        texts = {name: text for name, (_, text) in truth.items()}
        files = archive_files(self.place)
        assert self.run("verify", "--json").code == 0
        assert self.run("status", "--check", "--json").code == 0
        kinds = [
            kind
            for kind in DISTURBANCES
            if not self._order.scenarios or kind.name in self._order.scenarios
        ]
        for number in self._order.numbers:
            dice = Random(f"{self._order.seed} states {number}")
            kind = kinds[number % len(kinds)]
            self._restore(self._newest)
            change = kind.apply(self.place, [*self._older, self._foreign], dice)
            yield self._result(number, kind, change, texts, files)

    def _result(
        self,
        number: int,
        kind: Disturbance,
        change: str,
        texts: Mapping[str, str],
        files: Mapping[str, bytes],
    ) -> Result:
        judged = _Judgement(self, change, texts, files)
        judged.read()
        judged.check()
        judged.mend()
        ending = "is whole again" if judged.is_whole else "is reported"
        return Result(
            self._order.campaign,
            number,
            kind.name,
            change,
            ending,
            judged.problems,
            judged.output if judged.problems else "",
        )

    def _make_history(self) -> None:
        """Publish two segments, correct the second one, and publish a third one."""
        place = self.place
        source = place.home / "source"
        empty_home(place)
        write_segments(source, range(2, 4))
        self._undisturbed(LOAD, PUBLISH)
        shutil.copytree(place.home, self._foreign)
        empty_home(place)
        write_segments(source, range(2), changed=1)
        self._undisturbed(LOAD, PUBLISH)
        shutil.copytree(place.home, self._older[0])
        for manifest in place.warehouse.glob(f"manifests/*{BLOCKS + 1:09}-*"):
            manifest.unlink()
        write_segments(source, [1])
        assert self.run("repair").code == 5
        self._undisturbed(LOAD, ("publish", "--replace", "orders were wrong", "--json"))
        shutil.copytree(place.home, self._older[1])
        write_segments(source, [2])
        self._undisturbed(LOAD, PUBLISH)
        shutil.copytree(place.home, self._newest)

    def _undisturbed(self, *commands: Sequence[str]) -> None:
        undisturbed(self.place, self._settings, *commands)

    @property
    def _settings(self) -> Mapping[str, str]:
        return {**_ENV, "STRATA_CACHE": str(self.place.home / "cache")}

    def _restore(self, folder: Path) -> None:
        shutil.rmtree(self.place.home)
        shutil.copytree(folder, self.place.home)

    def run(self, *arguments: str) -> Ended:
        """Run a command of `strata` on the site."""

        def work() -> int:
            use(self.place.environment(self._settings))
            return run_strata(list(arguments))

        return in_child(work, self.place.notes)

    def reading(self, name: str) -> tuple[Ended, str]:
        """Run a command that reads; returns how it ended and a digest of the data it gave."""
        arguments = list(_READERS[name])
        for folder in ("archive", "got", "mirror", "exports"):
            at = arguments.index(folder) if folder in arguments else None
            if at is not None:
                arguments[at] = str(self.place.home / folder)
        ended = self.run(*arguments)
        if ended.code != 0:
            return ended, ""
        folders = {"fetch": "got", "mirror": "mirror", "export": "exports"}
        return ended, ended.out if name == "sql" else _csvs(self.place.home / folders[name])


class _Judgement:
    """The answers of one disturbed site, and the problems with them."""

    def __init__(
        self, states: States, change: str, texts: Mapping[str, str], files: Mapping[str, bytes]
    ) -> None:
        self._states = states
        self._change = change
        self._texts = texts
        self._files = files
        self.problems: list[str] = []
        self.output = ""
        self.is_whole = False

    def read(self) -> None:
        """Readers give the newest data, or end with an error.

        An older `index.json` and the shards that it names are an archive of an earlier day, which a
        reader of nothing else cannot know; the same holds for a mirror and an older `SHA256SUMS`.
        """
        is_older = {name: name in self._change.replace(",", " ").split() for name in _HEADS}
        unjudged = {"fetch"} if is_older["index.json"] else set()
        unjudged |= {"mirror"} if all(is_older.values()) else set()
        for name, text in self._texts.items():
            if name in unjudged:
                continue
            ended, given = self._states.reading(name)
            self._note(name, ended)
            if ended.code == 0 and given != text and _LOST not in ended.err:
                self.problems.append(f"{name} gives older or fewer rows, and ends with exit code 0")
                self.output += f"\n--- {name}: {given[:600]}"

    def check(self) -> None:
        """A check ends with exit code 0 only if the site's files are unchanged."""
        status = self._command("status", "--check", "--json")
        verify = self._command("verify", "--json")
        after = self._command("status", "--check", "--json")
        differing = self._differing()
        documents = [path for path in differing if not _is_zip_or_lake(path)]
        if verify.code == 0 and differing:
            self.problems.append(f"verify says that all is well, but {differing[:5]} differ")
        if status.code == 0 and documents:
            self.problems.append(f"status --check ends with 0, but {documents[:5]} differ")
        if verify.code == 5 and after.code == 0:
            self.problems.append("status --check ends with 0 after a verify with findings")

    def mend(self) -> None:
        """After the remedies the site is whole, or a check reports it."""
        for remedy in _REMEDIES:
            self._command(*remedy)
        verify = self._command("verify", "--json")
        status = self._command("status", "--check", "--json")
        given = {name: self._states.reading(name)[1] for name in self._texts}
        wrong = [name for name, text in self._texts.items() if given[name] != text]
        self.is_whole = not wrong
        if wrong and verify.code == 0 and status.code == 0:
            self.problems.append(f"after the remedies {wrong} differ, and every check ends with 0")

    def _command(self, *arguments: str) -> Ended:
        ended = self._states.run(*arguments)
        self._note(" ".join(arguments), ended)
        return ended

    def _note(self, command: str, ended: Ended) -> None:
        told = of_ending(ended, _CODES, told_in_output=(1, 4, 5))
        self.problems += [f"{command}: {problem}" for problem in told]
        self.output += f"\n--- {command}: {ending_of(ended)}\n{ended.out[-700:]}{ended.err[-900:]}"

    def _differing(self) -> list[str]:
        try:
            now = archive_files(self._states.place)
        except (OSError, ValueError):
            return ["the lake"]
        differing = [path for path, data in self._files.items() if now.get(path) != data]
        # The lake's current state follows with a delay, which the operator chooses.
        return [path for path in differing if path.split("/")[-2] not in _CURRENT_STATE]


def _is_zip_or_lake(path: str) -> bool:
    return "/lake/" in path or path.endswith((".zip", ".zip.sha256", ".html"))


def _csvs(folder: Path) -> str:
    """A digest of all CSVs of all ZIPs below a folder, and of the record of revisions."""
    digests: dict[str, str] = {}
    for path in sorted(folder.rglob("*.zip")):
        with zipfile.ZipFile(path) as file:
            for member in file.namelist():
                digests[f"{path.name}/{member}"] = hashlib.sha256(file.read(member)).hexdigest()
    for path in sorted(folder.rglob("revisions.json")):
        digests[path.name] = path.read_text()
    return json.dumps(digests)


def _older_documents(place: Place, others: Sequence[Path], dice: Random) -> str:
    """Some of the archive's files are those of an earlier day, as after an interrupted copy."""
    number = dice.randrange(2)
    old, new = others[number] / "archive" / KIT_CHAIN, place.archive / KIT_CHAIN
    names = sorted({path.name for folder in (old, new) for path in folder.iterdir()})
    chosen = sorted(dice.sample(names, dice.randint(1, 4)))
    for name in chosen:
        _replace(new / name, old / name)
    return f"{', '.join(chosen)} are those of state {number}"


def _old_among_new(place: Place, others: Sequence[Path], dice: Random) -> str:
    """Older documents were copied over the newer ones; newer files of other names stay."""
    number = dice.randrange(2)
    old = others[number] / "archive" / KIT_CHAIN
    folders = dice.sample(["index", "lake", "orders", "trades", "blocks"], dice.randint(1, 3))
    for folder in folders:
        shutil.copytree(old / folder, place.archive / KIT_CHAIN / folder, dirs_exist_ok=True)
    return f"files of {', '.join(folders)} were copied over from state {number}"


def _older_log(place: Place, others: Sequence[Path], dice: Random) -> str:
    """The newest snapshots of the log are gone, and perhaps the segments that they named."""
    logs = sorted((place.warehouse / "log").glob("*.json"))
    count = dice.randint(1, min(4, len(logs)))
    for path in logs[-count:]:
        path.unlink()
    if not_in_source := dice.random() < 0.5:
        (segment,) = (place.home / "source").glob(f"*-{2 * BLOCKS + 1}-{_LAST}.zip")
        segment.unlink()
    gone = ", and its last segment" if not_in_source else ""
    return f"the newest {count} of {len(logs)} snapshots are gone{gone}"


def _older_warehouse(place: Place, others: Sequence[Path], dice: Random) -> str:
    """A backup of the warehouse was put back; this machine's cache stays."""
    number = dice.randrange(2)
    folders = ["log"] if dice.random() < 0.3 else [path.name for path in place.warehouse.iterdir()]
    for folder in folders:
        _replace(place.warehouse / folder, others[number] / "warehouse" / folder)
    if not_in_source := dice.random() < 0.5:
        (segment,) = (place.home / "source").glob(f"*-{2 * BLOCKS + 1}-{_LAST}.zip")
        segment.unlink()
    gone = ", and its last segment is gone" if not_in_source else ""
    return f"{', '.join(sorted(folders))} of the warehouse are those of state {number}{gone}"


def _removed(place: Place, others: Sequence[Path], dice: Random) -> str:
    """A document, or a folder of the archive, is gone."""
    paths = sorted(
        path
        for path in (place.archive / KIT_CHAIN).rglob("*")
        if not any(part.startswith(".") for part in path.relative_to(place.archive).parts)
    )
    tops = [path for path in paths if path.parent.name in (KIT_CHAIN, "index", "lake")]
    path = dice.choice([*tops, *[place.archive / "chains.json"]] if dice.random() < 0.8 else paths)
    _remove(path)
    return f"{path.relative_to(place.archive)} is gone"


def _foreign_lake(place: Place, others: Sequence[Path], dice: Random) -> str:
    """Tables of the lake are those of another archive of the chain, or of an earlier day."""
    lake = place.archive / KIT_CHAIN / "lake"
    number = dice.randrange(3)
    tables = dice.sample(sorted(path.name for path in lake.iterdir() if path.is_dir()), 2)
    for table in tables:
        _replace(lake / table, others[number] / "archive" / KIT_CHAIN / "lake" / table)
    return f"{', '.join(tables)} of the lake are those of state {number}"


def _lost_data(place: Place, others: Sequence[Path], dice: Random) -> str:
    """Files of the warehouse and their segment are gone."""
    folder = place.warehouse / dice.choice(["data", "manifests", "data"])
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    chosen = dice.sample(files, min(len(files), dice.randint(1, 3)))
    for path in chosen:
        path.unlink()
    for segment in (place.home / "source").glob("*.zip"):
        segment.unlink()
    return f"{', '.join(path.name for path in chosen)} and all segments are gone"


def _replace(path: Path, other: Path) -> None:
    _remove(path)
    if other.is_dir():
        shutil.copytree(other, path)
    elif other.exists():
        shutil.copy2(other, path)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


DISTURBANCES = (
    Disturbance("older documents", _older_documents),
    Disturbance("old among new", _old_among_new),
    Disturbance("older log", _older_log),
    Disturbance("older warehouse", _older_warehouse),
    Disturbance("removed", _removed),
    Disturbance("foreign lake", _foreign_lake),
    Disturbance("lost data", _lost_data),
)
