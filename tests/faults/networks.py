"""A bad network before a real S3 server, while everything lies in buckets.

Connections are reset and stalled, bodies are cut and bits flipped, both ways, and the service says
500 and 503. A command must end with a sentence or as if nothing had happened; nothing half done may
be seen; run again, it ends as undisturbed.
"""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from botocore.retries.standard import ExponentialBackoff

import transforms.stores.s3
from tests import fault_proxy
from tests.faults.children import Ended, in_child, use
from tests.faults.commands import facts, run_strata, write_facts
from tests.faults.disturbing import GOLDEN
from tests.faults.door import Door, door_before, fault
from tests.faults.orders import Order
from tests.faults.places import DELTA_LOG, SEGMENTS, write_segments
from tests.faults.results import Result, ending_of, of_ending, said
from tests.faults.wholeness import half_done
from tests.weed_kit import s3_client, shared_server

_READ_SECONDS = 3
"""How long an answer is waited for: less than in production, as stalled ones are many here."""

_BACKOFF_SECONDS = 0.2
"""The first pause after a 503; in production a second."""

_ACTIONS = (
    fault_proxy.RESET,
    fault_proxy.STALL,
    fault_proxy.LOSE_THE_ANSWER,
    fault_proxy.FLIP_THE_ANSWER,
    fault_proxy.CUT_THE_ANSWER,
    fault_proxy.FLIP_THE_REQUEST,
    fault_proxy.CUT_THE_REQUEST,
    "500 InternalError",
    "503 SlowDown",
)
_FLIPS = (fault_proxy.FLIP_THE_ANSWER, fault_proxy.FLIP_THE_REQUEST)
_ALL = 10**9
_TIMES = (1, 1, 1, 2, 3, _ALL)
_LOAD, _PUBLISH, _VERIFY = ["load", "--json"], ["publish", "--json"], ["verify", "--json"]
_EXPORT = ["export", "orders", "1", str(SEGMENTS * 10), "--json", "--out"]
_COMMANDS = {"load": _LOAD, "publish": _PUBLISH, "verify": _VERIFY, "export": _EXPORT}
_CODES = (0, 7)
_DAMAGE = (4, 5)
"""Where the same bits are others however often they are asked for: so are those that lie so.

A table of the lake to which nothing can be added, whatever the reason, is 4.
"""

_REFUSED = (1,)
"""A listing has no hash: a segment whose name arrives as another one may be refused."""


@dataclass(frozen=True, slots=True)
class _Calm:
    """An undisturbed run of a command: its requests, what it said, and what it left."""

    requests: int
    said: Any
    left: Mapping[str, Any]


def _codes(name: str, action: str, times: int) -> tuple[int, ...]:
    """The exit codes that a command may have."""
    damage = _DAMAGE if action in _FLIPS and times == _ALL else ()
    refused = _REFUSED if (name, action) == ("load", fault_proxy.FLIP_THE_ANSWER) else ()
    return (*_CODES, *damage, *refused)


def _comparable(report: Any) -> Any:
    """A report without who created a ZIP: one whose answer was lost is there already."""
    if not isinstance(report, dict) or "identical" not in report:
        return report
    zips = report["created"] + report["identical"]
    return {**report, "created": zips, "identical": 0, "bytes": 0}


@dataclass
class Networks:
    """The tries of one process: a server, and a door before it."""

    folder: Path
    order: Order
    bucket: str = ""
    url: str = ""
    calm: dict[str, _Calm] = field(default_factory=dict)

    @property
    def notes(self) -> Path:
        """What a try writes on this machine, and its machine's folder."""
        return self.folder / "notes"

    def results(self) -> Iterator[Result]:
        """Disturb the requests of each command in turn."""
        with self._served() as door:
            names = self.order.scenarios or tuple(_COMMANDS)
            for number in self.order.numbers:
                name = names[number % len(names)]
                dice = random.Random(f"{self.order.seed} proxy {number}")
                yield self._tried(door, name, number, dice)

    @contextmanager
    def _served(self) -> Iterator[Door]:
        """Start a server with a source, a warehouse and an archive in a bucket of their own."""
        with ExitStack() as kept:
            server = kept.enter_context(shared_server())
            self.bucket, self.url = server.bucket(), server.url
            door = kept.enter_context(door_before(server.url))
            write_segments(self.folder / "source", range(SEGMENTS))
            self._upload(self.folder / "source", "source")
            for name in ("load", "publish"):
                self._prepare(name, "known")
                ended = self._run(name, "known", self.url)
                assert ended.code == 0, f"{name}: {ended.out}\n{ended.err}"
                shutil.copytree(self.notes / "cache", self.folder / f"after-{name}")
            yield door

    def _tried(self, door: Door, name: str, number: int, dice: random.Random) -> Result:
        calm = self._calm_of(door, name)
        action, times = dice.choice(_ACTIONS), dice.choice(_TIMES)
        at = 1 + int(number * GOLDEN % 1 * calm.requests)
        place = f"try-{number}"
        self._prepare(name, place)
        door.set(fault(action, at, times))
        ended = self._run(name, place, door.url)
        met = door.set(None)
        problems = of_ending(
            ended, _codes(name, action, times), told_in_output=(*_DAMAGE, *_REFUSED)
        )
        if ended.code == 0 and (now := _comparable(said(ended.out))) != _comparable(calm.said):
            problems.append(f"it says {now}, not {_comparable(calm.said)}")
        problems += [f"half done: {one}" for one in self._half_done(name, place)]
        again = self._run(name, place, self.url)
        problems += [f"run again: {one}" for one in of_ending(again, (0,))]
        left = self._left(name, place)
        problems += [
            f"run again: {what} is another than undisturbed: {str(left.get(what))[:300]}"
            for what in sorted(left.keys() | calm.left.keys())
            if left.get(what) != calm.left.get(what)
        ]
        self._remove(place)
        what = f"{action} at request {at}" + {1: "", _ALL: " and all after"}.get(
            times, f" and {times - 1} after"
        )
        output = f"{ended.out[-600:]}\n{ended.err[-3000:]}\n{again.err[-2000:]}" if problems else ""
        ending = ending_of(ended) if met.done else "ended before"
        where = f"{what}: {met.first}"
        return Result(self.order.campaign, number, name, where, ending, problems, output)

    def _calm_of(self, door: Door, name: str) -> _Calm:
        if name not in self.calm:
            self._prepare(name, "calm")
            door.set(None)
            ended = self._run(name, "calm", door.url)
            assert ended.code == 0, f"{name}: {ended.out}\n{ended.err}"
            met = door.set(None).met
            self.calm[name] = _Calm(met, said(ended.out), self._left(name, "calm"))
            self._remove("calm")
        return self.calm[name]

    def _prepare(self, name: str, place: str) -> None:
        """This machine's folder before a command; what it reads in the bucket is `known`."""
        shutil.rmtree(self.notes, ignore_errors=True)
        self.notes.mkdir()
        before = {"publish": "load", "verify": "publish", "export": "publish"}.get(name)
        if before:
            shutil.copytree(self.folder / f"after-{before}", self.notes / "cache")

    def _environment(self, name: str, place: str, url: str) -> dict[str, str]:
        bucket = f"s3://{self.bucket}"
        warehouse = place if name == "load" else "known"
        archive = place if name == "publish" else "known"
        return {
            "STRATA_SOURCE": f"{bucket}/source",
            "STRATA_WAREHOUSE": f"{bucket}/{warehouse}/warehouse",
            "STRATA_ARCHIVE": f"{bucket}/{archive}/archive",
            "STRATA_CACHE": str(self.notes / "cache"),
            "STRATA_BATCH": "2",
            "AWS_ENDPOINT_URL": url,
            "TMPDIR": str(self.notes),
        }

    def _run(self, name: str, place: str, url: str) -> Ended:
        arguments = [*_COMMANDS[name], *([str(self.notes / "out")] if name == "export" else [])]

        def work() -> int:
            use(self._environment(name, place, url))
            vars(transforms.stores.s3)["_READ_SECONDS"] = _READ_SECONDS
            backoff = vars(ExponentialBackoff)["_DEFAULT_BACKOFF_CONFIG"]
            backoff["throttling_base_scale"] = _BACKOFF_SECONDS
            return run_strata(arguments)

        return in_child(work, self.notes)

    def _left(self, name: str, place: str) -> dict[str, Any]:
        """What the command made."""
        if name == "export":
            return {path.name: path.read_bytes() for path in (self.notes / "out").iterdir()}
        if name == "publish":
            objects = self._objects(f"{place}/archive/")
            return {key: data for key, data in objects.items() if f"/{DELTA_LOG}/" not in key}
        if name == "verify":
            return {}
        found = self.notes / "facts.json"

        def work() -> int:
            environment = self._environment(name, place, self.url)
            use(environment)
            place_of, cache = environment["STRATA_WAREHOUSE"], self.notes / "reader"
            write_facts(found, facts(place_of, cache))
            return 0

        ended = in_child(work, self.notes)
        assert ended.code == 0, ended.err
        return dict(json.loads(found.read_text()))

    def _half_done(self, name: str, place: str) -> list[str]:
        if name in ("verify", "export"):
            return []
        mirror = self.folder / "mirror"
        shutil.rmtree(mirror, ignore_errors=True)
        for key, data in self._objects(f"{place}/").items():
            path = mirror / key
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        return half_done(mirror / "warehouse", mirror / "archive")

    def _client(self) -> Any:
        return s3_client(self.url)

    def _objects(self, prefix: str) -> dict[str, bytes]:
        client = self._client()
        pages = client.get_paginator("list_objects_v2").paginate(Bucket=self.bucket, Prefix=prefix)
        keys = [found["Key"] for page in pages for found in page.get("Contents", ())]
        return {
            key.removeprefix(prefix): client.get_object(Bucket=self.bucket, Key=key)["Body"].read()
            for key in sorted(keys)
            if not any(part.startswith(".") for part in key.split("/"))
        }

    def _upload(self, folder: Path, prefix: str) -> None:
        client = self._client()
        for path in folder.iterdir():
            client.put_object(
                Bucket=self.bucket, Key=f"{prefix}/{path.name}", Body=path.read_bytes()
            )

    def _remove(self, place: str) -> None:
        client = self._client()
        pages = client.get_paginator("list_objects_v2").paginate(
            Bucket=self.bucket, Prefix=f"{place}/"
        )
        for page in pages:
            for found in page.get("Contents", ()):
                client.delete_object(Bucket=self.bucket, Key=found["Key"])
