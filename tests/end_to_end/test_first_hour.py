"""The first ten minutes of somebody who did not build it: an empty clone, and the README as typed.

The clone has what is committed, and the PATH only what the README asks for, until the README
extends it. Only the installation is not made anew: that takes minutes.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.request import urlopen

import pytest

from pipelines.cli import main
from tests.data_node_kit import data_node, node_history
from tests.docs.readme import README, Shown, shown_commands, table_commands
from tests.s3_kit import bucket_server

ROOT = Path(__file__).parents[2]
VENV = Path(sys.prefix)
CHAIN = "sample-chain-001"
_PACKAGES = ("pyproject.toml", "constraints.txt", "constraints-pip.txt", "tests/api/rpc/stubs.txt")
_PROGRAMS = ("bash", "make", "sh", "sha256sum")
"""What a system has beside Python: a shell, `make`, and GNU's tools."""
_VARYING = re.compile(r"\(run [0-9a-f-]{36}\)| in \d+\.\d s$")
_QUESTION = "select count(*) from trades;\n"


@dataclass
class Newcomer:
    """A clone, and a terminal in it; `exports` are the `export` commands that were typed."""

    clone: Path
    environment: dict[str, str]
    exports: str = ""

    def types(self, command: str, stdin: str = "", **more: str) -> str:
        """What a command prints, which is expected to work."""
        done = subprocess.run(
            ["bash", "-ec", f"{self.exports}{command}"],
            cwd=self.clone,
            env={**self.environment, **more},
            input=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}"
        return done.stdout

    def follows(self, block: list[Shown]) -> None:
        """Type the commands of a block one after the other, in one shell."""
        before = ""
        for shown in block:
            printed = self.types(before + shown.command, _QUESTION)
            lines = [_VARYING.sub("", line.rstrip()) for line in printed.splitlines()]
            for line in shown.lines:
                there = line.replace("/home/you/strata", str(self.clone))
                assert _VARYING.sub("", there) in lines, printed
            before += f"{shown.command}; " if shown.command.startswith("cd ") else ""
            self.exports += f"{shown.command}; " if shown.command.startswith("export ") else ""

    @contextmanager
    def serving(self) -> Iterator[str]:
        """`strata serve` on a free port; where it listens."""
        command = f"{self.exports}exec strata serve --port 0 --no-grpc"
        server = subprocess.Popen(
            ["bash", "-ec", command],
            cwd=self.clone,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # a line for each request
            text=True,
        )
        assert server.stdout is not None
        try:
            yield server.stdout.readline().split()[-1]
        finally:
            server.terminate()
            server.wait()
            server.stdout.close()


@pytest.fixture(scope="module")
def newcomer(tmp_path_factory: pytest.TempPathFactory) -> Newcomer:
    folder = tmp_path_factory.mktemp("newcomer")
    clone = folder / "strata"
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
    (clone / ".venv").symlink_to(VENV)
    for name in _PACKAGES:
        os.utime(clone / name, (0, 0))  # older than the installation: it is not made anew
    programs = folder / "bin"
    programs.mkdir()
    for name in _PROGRAMS:
        program = shutil.which(name)
        assert program, f"{name} is not on the PATH of the tests: install it"
        (programs / name).symlink_to(program)
    (programs / "python3").symlink_to(Path(sys.base_prefix, "bin", "python3"))
    mine = {"PATH": str(programs), "HOME": str(folder), "TERM": "dumb"}
    # The installed package is the tree that the tests are of, and theirs is the clone's.
    newcomer = Newcomer(clone, {**mine, "PYTHONPATH": str(clone)})
    newcomer.follows(_blocks("$ make run")[0])
    newcomer.follows(_blocks("export PATH")[0])
    return newcomer


def _blocks(begins: str) -> list[list[Shown]]:
    """The blocks of the README whose first command is one; `$` says that its output is shown."""
    plain = begins.removeprefix("$ ")
    return [
        block
        for block in shown_commands()
        if block[0].command.startswith(plain) and bool(block[0].lines) == begins.startswith("$")
    ]


def test_what_the_readme_shows_is_what_one_sees(newcomer: Newcomer) -> None:
    """All blocks but the first two, which every test begins with, and other sources."""
    shown = shown_commands()
    assert sum(map(len, shown)) > 9
    others = [*_blocks("make run STRATA_SOURCE"), *_blocks("strata collect")]
    done = [_blocks("$ make run")[0], *_blocks("export PATH"), *others]
    for block in shown:
        if block not in done:
            newcomer.follows(block)


def test_without_strata_on_the_path_a_run_says_how_to_put_it_there(newcomer: Newcomer) -> None:
    bare = f"export PATH={newcomer.environment['PATH']}; "
    printed = newcomer.types(f"{bare}.venv/bin/strata run")
    (line,) = [one for one in printed.splitlines() if "export PATH=" in one]
    assert "segments" in newcomer.types(f"{bare}{line}\nstrata status")
    assert "export PATH=" not in newcomer.types("strata run")


def test_the_makes_of_the_readme_do_what_it_says(newcomer: Newcomer) -> None:
    for name, last_step in (("run", "strata run"), ("test", "pytest"), ("ui", "dagster dev")):
        assert f"`make {name}`" in README.read_text()
        assert last_step in newcomer.types(f"make -n {name}").splitlines()[-1]


def test_what_the_readme_says_to_look_at_is_there(newcomer: Newcomer) -> None:
    (address,) = re.findall(r"<http://127\.0\.0\.1:3008(/.*?)>", README.read_text())
    (page,) = re.findall(r"`(strata-data/archive/.*?\.html)`", README.read_text())
    with newcomer.serving() as url, urlopen(f"{url}{address}") as answer:
        assert CHAIN in answer.read().decode()
    assert CHAIN in (newcomer.clone / page).read_text()


def test_segments_are_collected_from_a_node_as_the_readme_says(
    newcomer: Newcomer, tmp_path: Path
) -> None:
    node_history(tmp_path / "node")
    (source := tmp_path / "source").mkdir()
    (((shown),),) = _blocks("strata collect")
    with data_node(tmp_path / "node") as node:
        command = _replaced(shown, "http://127.0.0.1:3008", node.url).command
        socket = str(node.socket)
        newcomer.types(command, STRATA_SOURCE=str(source), STRATA_NODE_SOCKET=socket)
    assert len([*source.glob("*.zip")]) == 6


def _replaced(shown: Shown, *pairs: str) -> Shown:
    command = shown.command
    for old, new in zip(pairs[::2], pairs[1::2], strict=True):
        command = command.replace(old, new)
    return Shown(command, shown.lines)


def test_segments_in_a_bucket_are_loaded_as_the_readme_says(
    newcomer: Newcomer, tmp_path: Path
) -> None:
    first = f"{CHAIN}-1-1-1000.zip"
    path = newcomer.clone / "strata-data" / "source" / first
    with bucket_server() as server:
        bucket = server.bucket()
        server.client.upload_file(str(path), bucket, f"segments/{first}")
        store = {name: value for name, value in os.environ.items() if name.startswith("AWS_")}
        store |= {"AWS_ENDPOINT_URL": server.url, "AWS_DEFAULT_REGION": "us-east-1"}
        store["STRATA_LAKE"] = "0"  # which has tests of its own
        ((in_folder, in_bucket),) = _blocks("make run STRATA_SOURCE")
        # A folder is named as the bucket is: to run that too would show nothing more.
        assert in_bucket.command.startswith(in_folder.command.replace("/data/", "s3://bucket/"))
        shown = _replaced(in_bucket, "s3://bucket/", f"s3://{bucket}/")
        printed = newcomer.types(shown.command, **store)
        assert f"s3://{bucket}/exports" in printed
        (hint,) = [one for one in printed.splitlines() if " export orders " in one]
        # What it says to do next works as it is printed.
        assert "orders-1-1000.zip: " in newcomer.types(f"{hint} --out {tmp_path}", **store)


def test_every_command_of_the_table_in_operations_works(
    newcomer: Newcomer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in os.environ if name.startswith(("STRATA_", "DAGSTER_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("DAGSTER_HOME", str(newcomer.clone / "dagster_home"))
    monkeypatch.chdir(newcomer.clone)
    commands = table_commands()
    assert len(commands) > 15
    with newcomer.serving() as url:  # `strata serve`
        for command in commands:
            command = command.replace('"select ..."', '"select count(*) from orders"')
            command = command.replace("https://host/", f"{url}/")
            if command == "strata shell":
                assert "1468" in newcomer.types(command, _QUESTION)
            elif command != "strata serve":
                with pytest.raises(SystemExit) as left:
                    main(shlex.split(command)[1:])
                assert left.value.code == 0, command
