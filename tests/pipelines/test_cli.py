"""The command line as people and scripts meet it: output, JSON, exit codes."""

from __future__ import annotations

import hashlib
import json
import os
import pty
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from pipelines.cli import main
from pipelines.commands import display
from pipelines.commands.group import COMMANDS
from pipelines.settings import Settings
from pipelines.site.loading import load_segments
from pipelines.site.site import Site
from tests.damage_kit import rot
from tests.minisign_kit import PUBLIC_KEY, SECRET_KEY
from tests.pipelines.command_kit import call, places
from tests.pipelines.kit import make_segment, site_settings
from tests.segments_kit import KIT_CHAIN, entry_bytes
from transforms.tables.registry import HISTORY_TABLES

STRATA = Path(sys.executable).parent / "strata"


@dataclass(frozen=True)
class Answer:
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Strata = Callable[..., Answer]


@pytest.fixture
def strata(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Strata:
    """Call the command line in this process, with the site's places in the environment.

    There is no lake: that takes as long as the rest, and `published` has one.
    """
    for name, value in {**places(settings), "STRATA_LAKE": "0"}.items():
        monkeypatch.setenv(name, value)

    def call(*arguments: object) -> Answer:
        capfd.readouterr()
        with pytest.raises(SystemExit) as left:
            main([str(argument) for argument in arguments])
        captured = capfd.readouterr()
        assert isinstance(left.value.code, int)
        return Answer(left.value.code, captured.out, captured.err)

    return call


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """Two segments, loaded and published by the command line itself."""
    settings = site_settings(tmp_path_factory.mktemp("published"))
    for number in (0, 1):
        make_segment(settings, number)
    for command in ("load", "publish"):
        assert call(places(settings), command).returncode == 0
    return settings


@pytest.fixture
def at_published(strata: Strata, published: Settings, monkeypatch: pytest.MonkeyPatch) -> Strata:
    """The command line with the published site's places in the environment."""
    monkeypatch.delenv("STRATA_LAKE")
    for name, value in places(published).items():
        monkeypatch.setenv(name, value)
    return strata


def test_the_help_names_every_command(strata: Strata) -> None:
    answer = strata("--help")

    assert answer.code == 0
    for command in COMMANDS:
        assert f"\n  {command} " in answer.out
        assert strata(command, "--help").code == 0


def test_only_run_waits_for_dagster_and_only_buckets_for_boto() -> None:
    modules = ", ".join(f"pipelines.commands.{name}" for name in COMMANDS)
    code = f"import sys, {modules}; sys.exit(str({{'dagster', 'boto3'}} & set(sys.modules)))"

    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)

    assert process.stderr.strip() == "set()"


def test_load_then_publish_by_hand(strata: Strata, settings: Settings) -> None:
    sources = [make_segment(settings, number) for number in (0, 1)]

    loaded = strata("load", "--json")
    first = strata("publish", "--json")

    assert (loaded.code, first.code) == (0, 0)
    assert [row["segment"] for row in loaded.json["loaded"]] == ["1-10", "11-20"]
    assert loaded.json["loaded"][0]["rows"] == 10
    assert loaded.json["quarantined"] == []
    assert first.json["created"] == 2 * len(HISTORY_TABLES)
    zip_file = Path(settings.archive, KIT_CHAIN, "blocks", f"{KIT_CHAIN}-blocks-1-10.zip")
    with zipfile.ZipFile(zip_file) as archive:
        assert archive.read(archive.namelist()[0]) == entry_bytes(sources[0], "blocks")
    assert "Nothing new to load." in strata("load").out
    assert "Nothing new to publish: all 30 ZIPs" in strata("publish").out


def test_a_bad_segment_is_reported_every_time_and_makes_the_exit_code_1(
    strata: Strata, settings: Settings
) -> None:
    make_segment(settings, 0)
    make_segment(settings, 1, omit=["trades"])

    for _ in range(2):
        answer = strata("load")
        assert answer.code == 1
        assert f"{KIT_CHAIN}-1-11-20.zip" in answer.out
        assert "trades" in answer.out
    assert [row["file"] for row in strata("load", "--json").json["quarantined"]] == [
        f"{KIT_CHAIN}-1-11-20.zip"
    ]


def test_run_loads_and_publishes_through_dagster_and_then_has_nothing_to_do(
    strata: Strata, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("STRATA_LAKE")
    make_segment(settings, 0)

    first = strata("run", "--json")
    again = strata("run")

    assert first.code == 0
    assert [row["table"] for row in first.json["published"]] == list(HISTORY_TABLES)
    assert len(first.json["published"][0]["newest"]["sha256"]) == 64
    assert [(run["batch"], run["failure"]) for run in first.json["runs"]] == [("1-10", "")]
    assert first.json["complete_until"] == 10
    assert again.code == 0
    assert "Nothing new: 1 segments of kit-chain are published" in again.out
    assert f"strata sql 'from blocks limit 5' --warehouse {settings.warehouse}" in again.out
    places = f"--warehouse {settings.warehouse} --archive {settings.archive}"
    assert f"strata export orders 1 10 --out exports {places}" in again.out
    assert "make ui" not in again.out, "it would show the embedded sample"
    assert (tmp_path / "home" / "dagster.yaml").exists()


def test_run_tells_what_failed_and_leaves_with_1(
    strata: Strata, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "home"))
    make_segment(settings, 0, omit=["trades"])

    answer = strata("run")

    assert answer.code == 1
    assert "blocks 1-10: 1 of 1 segments cannot be loaded" in answer.err
    assert "cannot be used" in answer.out
    assert "Nothing new" not in answer.out


def test_status_shows_how_far_each_segment_has_come(
    at_published: Strata, published: Settings
) -> None:
    text, facts = at_published("status"), at_published("status", "--json")

    assert (text.code, facts.code) == (0, 0)
    assert "complete until block 20" in text.out
    assert facts.json["chain_id"] == KIT_CHAIN
    assert facts.json["segments"] == {
        "found": ["1-10", "11-20"],
        "loaded": ["1-10", "11-20"],
        "published": ["1-10", "11-20"],
        "in_lake": ["1-10", "11-20"],
        "to_do": [],
    }
    assert "nothing is left to do" in text.out
    assert facts.json["complete_until"] == 20
    assert facts.json["blocks_behind"] == 0
    assert facts.json["quarantined"] == []
    # The kit's segments name no predecessor.
    assert facts.json["ids"] == {"unbroken": ["1-10", "11-20"], "contradictions": []}
    assert "chain of the network's ids unbroken over 1-10, 11-20" in text.out


def test_status_shows_gaps_and_what_cannot_be_used(strata: Strata, settings: Settings) -> None:
    for number in (0, 2):
        make_segment(settings, number)
    Path(settings.source, "notes.zip").write_bytes(b"")

    facts = strata("status", "--json").json

    assert facts["gaps"]["found"] == ["11-20"]
    assert facts["segments"]["to_do"] == ["1-10", "21-30"]
    assert facts["blocks_behind"] == 20
    assert [row["file"] for row in facts["quarantined"]] == ["notes.zip"]
    text = strata("status").out
    assert "notes.zip" in text
    assert "segments 2 to load: strata run does that\n1 files cannot be used" in text
    rows = {line.split()[0]: line.split() for line in text.splitlines() if line.strip()}
    assert rows["found"][:3] == ["found", "2", "1-10,"]
    assert rows["loaded"][:5] == ["loaded", "0", "2", "none", "none"]
    assert not Path(settings.warehouse).exists()


def test_status_names_lost_volumes_and_the_remedy_works(
    strata: Strata, published: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "warehouse"
    shutil.copytree(published.warehouse, folder)
    at = ("--warehouse", str(folder))
    archive = ("--archive", str(shutil.copytree(published.archive, tmp_path / "archive")))
    every = (*at, "--source", published.source, *archive)
    assert strata("status", "--json", *every).json["lost"] == []
    (data,) = (folder / "data" / "blocks").iterdir()
    data.write_bytes(data.read_bytes()[:-1])
    (manifest,) = (folder / "manifests").iterdir()
    assert strata("status", "--json", *every).json["lost"] == [f"manifests/{manifest.name}"]
    assert "run strata repair, then strata load" in strata("status", *every).out
    assert strata("repair", *at).code == 5
    asked = strata("sql", "select 1", *at)
    assert (asked.code, "rows are missing" in asked.err) == (0, True)
    assert "lacks the blocks 1 to 20, which had been loaded and were lost" in asked.err
    assert strata("load", "--source", published.source, *at).code == 0
    assert strata("status", "--json", *every).json["lost"] == []
    # The lake follows, as it does in each run: what was loaded again is in files of other names.
    monkeypatch.setenv("STRATA_LAKE", "1")
    assert strata("publish", *at, *archive).code == 0
    assert strata("verify", *at, *archive).code == 0
    assert strata("sql", "select 1", *at).err == ""


def test_status_says_that_there_is_no_archive(strata: Strata, settings: Settings) -> None:
    make_segment(settings, 0)
    assert f"there is no archive at {settings.archive}: strata publish" in strata("status").out


def test_a_dry_run_says_exactly_what_the_export_will_be(
    at_published: Strata, tmp_path: Path
) -> None:
    out = tmp_path / "exports"

    plan = at_published("export", "blocks", 1, 20, "--dry-run", "--json").json
    assert not out.exists()
    done = at_published("export", "blocks", 1, 20, "--out", out, "--json").json

    path = out / f"{KIT_CHAIN}-blocks-1-20.zip"
    assert plan == {**done, "path": None, "sha256": None}
    assert done["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
    subprocess.run(["sha256sum", "-c", f"{path.name}.sha256"], cwd=out, check=True)
    assert done["sha256"] in at_published("export", "blocks", 1, 20, "--out", out).out
    assert done["path"] == str(path)
    assert done["bytes"] == path.stat().st_size
    (member,) = done["members"]
    assert done["segments"] == [["1-10", "11-20"]]
    with zipfile.ZipFile(path) as archive:
        (info,) = archive.infolist()
    assert (member["name"], member["csv_bytes"], member["deflated"], member["crc32"]) == (
        info.filename,
        info.file_size,
        info.compress_size,
        info.CRC,
    )


def test_an_export_never_sends_a_bit_that_flipped(
    strata: Strata, published: Settings, tmp_path: Path
) -> None:
    folder = shutil.copytree(published.warehouse, tmp_path / "warehouse")
    archive = Path(shutil.copytree(published.archive, tmp_path / "archive"))
    at = ("--warehouse", folder, "--archive", archive)
    out, name = tmp_path / "out", f"{KIT_CHAIN}-orders-1-20.zip"
    words = ("export", "orders", 1, 20, "--out", out, *at)
    assert strata(*words).code == 0
    right = (out / name).read_bytes()
    rot(archive / KIT_CHAIN / "orders" / f"{KIT_CHAIN}-orders-1-10.zip")
    done = strata(*words)
    assert (done.code, "orders-1-10.zip no longer has the bytes" in done.err) == (5, True)
    assert not (out / f"{name}.sha256").exists()
    done = strata(*words)
    assert (done.code, "The rows are taken from another copy" in done.err) == (0, True)
    assert (out / name).read_bytes() == right
    subprocess.run(["sha256sum", "-c", f"{name}.sha256"], cwd=out, check=True)


def test_an_export_takes_times_and_says_what_it_took(at_published: Strata) -> None:
    answer = at_published(
        *("export", "blocks", "--from", "2023-01-01T00:00:11Z", "--dry-run", "--json")
    )
    assert "taking blocks 11-20 (1 segment)" in answer.err
    assert answer.json["name"] == f"{KIT_CHAIN}-blocks-11-20.zip"
    assert (answer.json["chosen"]["from_block"], answer.json["chosen"]["to_block"]) == (11, 20)


def test_names_can_be_padded_as_the_network_does(
    at_published: Strata, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STRATA_NAME_STYLE", "reference")
    answer = at_published("export", "blocks", 1, 20, "--dry-run", "--json")

    assert answer.json["name"] == f"{KIT_CHAIN}-blocks-000001-000020.zip"
    assert answer.json["members"][0]["name"] == f"{KIT_CHAIN}-blocks-001-000001-000020.csv"


def test_sql_answers_as_table_and_json(at_published: Strata) -> None:
    query = "select height, null as nothing, '' as empty from blocks where height > 18 order by 1"

    assert at_published("sql", query).out.split() == [
        *("height", "nothing", "empty"),
        *("19", "NULL"),
        *("20", "NULL"),
    ]
    assert at_published("sql", query, "--json").json == {
        "columns": ["height", "nothing", "empty"],
        "rows": [[19, None, ""], [20, None, ""]],
    }


def test_sql_keeps_columns_of_one_name_apart(at_published: Strata) -> None:
    query = "select 1 as a, 2 as a, 'x' as b, 3 as a"

    assert at_published("sql", query).out.split() == ["a", "a", "b", "a", "1", "2", "x", "3"]
    assert at_published("sql", query, "--json").json == {
        "columns": ["a", "a", "b", "a"],
        "rows": [[1, 2, "x", 3]],
    }


def test_sql_shows_null_as_no_text_is_shown(at_published: Strata) -> None:
    query = "select null as a, 'NULL' as b, '''NULL''' as c, [null] as d"

    assert at_published("sql", query).out.split()[4:] == ["NULL", "'NULL'", "''NULL''", "[NULL]"]
    assert at_published("sql", query, "--json").json["rows"] == [[None, "NULL", "'NULL'", "[NULL]"]]


def test_sql_answers_every_value_in_json_that_others_read(at_published: Strata) -> None:
    values = {
        "'nan'::double": "nan",
        "['-inf'::float]": "[-inf]",
        "1e300": 1e300,
        "'340282366920938463463374607431768211455'::uhugeint": 2**128 - 1,
        "sum(1)": 1,
        "-1.50::decimal(9,2)": "-1.50",
        "date '9999-12-31'": "9999-12-31",
        "'infinity'::timestamptz": "infinity",
        "timestamp_ns '2020-01-01 00:00:00.123456789'": "2020-01-01 00:00:00.123456789",
        "'\\xff'::blob": "\\xFF",
        "{'a': date '2020-01-01', 'b c': [1, null]}": "{'a': 2020-01-01, 'b c': [1, NULL]}",
        "[1, 2]::int[2]": "[1, 2]",
        "interval 36 hour": "36:00:00",
        "true": True,
    }

    answer = at_published("sql", f"select {', '.join(values)}", "--json")
    assert at_published("sql", f"select {', '.join(values)}").code == 0

    read = json.loads(answer.out, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    assert read["rows"] == [list(values.values())]


@pytest.mark.parametrize("query", ["show tables", "describe orders", "summarize blocks"])
def test_sql_describes(at_published: Strata, query: str) -> None:
    assert at_published("sql", query).code == 0
    assert at_published("sql", query, "--json").json["rows"]


def test_sql_shows_the_first_rows_of_many(at_published: Strata) -> None:
    answer = at_published("sql", "select range as number from range(1000)")

    assert len(answer.out.splitlines()) == 101
    assert "The first 100 rows" in answer.err


def test_verify_is_silent_on_stderr_where_all_is_well(at_published: Strata) -> None:
    answer = at_published("verify")

    assert (answer.code, answer.err) == (0, "")
    assert "Everything matches" in answer.out


def test_verify_says_how_far_it_is_where_it_takes_long(
    at_published: Strata, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(display, "_LINE_SECONDS", 0.0)

    lines = at_published("verify").err.splitlines()

    (whole,) = {line.rpartition(" of ")[2].split(", ")[0] for line in lines if " volumes: " in line}
    assert f"verifying volumes: {whole} of {whole}" in lines
    assert "verifying ZIPs: 30 of 30" in lines
    read, of = lines[-1].removeprefix("verifying files of the lake: ").split(" of ")
    assert read == of


def test_verify_leaves_with_5_where_something_is_gone(strata: Strata, settings: Settings) -> None:
    make_segment(settings, 0)
    strata("load")
    strata("publish")
    Path(settings.archive, KIT_CHAIN, "blocks", f"{KIT_CHAIN}-blocks-1-10.zip").unlink()

    answer = strata("verify", "--json")

    assert answer.code == 5
    assert any(f"{KIT_CHAIN}-blocks-1-10.zip" in row["where"] for row in answer.json["findings"])


@pytest.mark.parametrize(
    ("arguments", "code", "expected"),
    [
        (["export", "blocks", "1", "15", "--out", "x"], 3, "block 15 is not the last block"),
        (["export", "blocks", "1", "99", "--out", "x"], 3, "no segment holds 21-99"),
        (["export", "nothing", "1", "20", "--out", "x"], 2, "is no table"),
        (["export", "blocks", "one", "20", "--out", "x"], 2, "not a valid integer"),
        (["export", "blocks", "1", "20"], 2, "--dry-run"),
        (["export", "blocks", "1", "--dry-run"], 2, "give two blocks, FROM TO, or else --from"),
        (["export", "blocks", "--dry-run"], 2, "give two blocks, FROM TO, or else --from"),
        (["export", "blocks", "1", "20", "--to", "20", "--dry-run"], 2, "or else --from and --to"),
        (
            ["export", "blocks", "--from", "21", "--dry-run"],
            3,
            "no segment lies from 21: the wareh",
        ),
        (
            ["export", "orders", "--dry-run", "--to", "yesterday"],
            2,
            "'yesterday' is neither a block nor a time",
        ),
        (
            ["export", "orders", "--from", "2024-01-01", "--dry-run"],
            3,
            "holds blocks 1-20 (2 segments), 2023-01-01T00:0",
        ),
        (["export", "orders", "--from", "9", "--to", "3", "--dry-run"], 3, "3 is before 9"),
        (["sql", "selekt"], 2, "the query cannot be run"),
        (["load", "--source", "/nowhere/at/all"], 2, "/nowhere/at/all does not exist"),
        (["load", "--source", "ftp://host/x"], 2, "is no store"),
        (["fetch"], 2, "Missing argument"),
        (["fecth"], 2, "No such command"),
        (["sql", "select", "1"], 2, "quote the query: strata sql 'select 1'"),
        (["sql", "select", "'a", "b'"], 2, """strata sql 'select '"'"'a b'"'"''"""),
        (["load", "--warehouse", "/dev/null/x"], 2, "/dev/null is no folder: name one"),
    ],
)
def test_what_cannot_be_done_is_one_sentence_on_stderr_and_a_code(
    at_published: Strata,
    arguments: list[str],
    code: int,
    expected: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)

    answer = at_published(*arguments)

    assert answer.code == code
    assert expected in answer.err
    assert answer.out == ""
    assert "Traceback" not in answer.err
    assert not Path("x").exists()


def test_a_wrong_setting_is_reported_with_its_variable(
    strata: Strata, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STRATA_BATCH", "lots")

    answer = strata("status")

    assert (answer.code, answer.err.strip()) == (
        2,
        "strata: STRATA_BATCH is 'lots': give a whole number from 1 up",
    )


def test_debug_shows_where_an_error_comes_from(published: Settings) -> None:
    answer = subprocess.run(
        [STRATA, "--debug", "sql", "selekt"],
        capture_output=True,
        text=True,
        env={**os.environ, **places(published)},
    )

    assert "Traceback" in answer.stderr


def test_the_sample_can_be_written_anywhere(strata: Strata, tmp_path: Path) -> None:
    folder = tmp_path / "sample"

    answer = strata("sample", folder, "--json")

    assert answer.code == 0
    assert sorted(answer.json["files"]) == sorted(path.name for path in folder.glob("*.zip"))
    assert len(answer.json["files"]) >= 6
    assert f"Next: strata run --source {folder}" in strata("sample", folder).out


def test_a_terminal_gets_colour_and_a_pipe_gets_plain_text(published: Settings) -> None:
    command = [str(STRATA), "sql", "select height from blocks limit 1"]
    environment = {**os.environ, **places(published), "TERM": "xterm-256color"}
    ours, theirs = pty.openpty()
    subprocess.run(command, check=True, env=environment, stdout=theirs, stderr=theirs)
    os.close(theirs)
    seen = os.read(ours, 65536)
    os.close(ours)
    piped = subprocess.run(command, check=True, env=environment, capture_output=True)

    assert b"\x1b[" in seen
    assert b"\x1b[" not in piped.stdout
    assert piped.stdout.split() == [b"height", b"1"]


def test_an_archive_is_signed_where_a_key_is_set_and_verify_asks_for_it(
    strata: Strata, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_segment(settings, 0)
    assert strata("load").code == 0
    assert strata("publish").code == 0
    unsigned = strata("verify", "--key", PUBLIC_KEY, "--json")
    assert unsigned.code == 5
    assert {row["problem"] for row in unsigned.json["findings"]} == {"missing"}
    (tmp_path / "strata.key").write_text(SECRET_KEY)
    monkeypatch.setenv("STRATA_SIGNING_KEY", str(tmp_path / "strata.key"))
    assert strata("publish").code == 0
    assert strata("verify", "--key", PUBLIC_KEY).code == 0
    assert strata("verify").code == 0
    index = Path(settings.archive, KIT_CHAIN, "index.json.minisig")
    index.write_bytes(index.read_bytes().replace(b"up to block", b"UP to block"))
    altered = strata("verify", "--key", PUBLIC_KEY)
    assert altered.code == 5
    assert "is not what was signed" in " ".join(altered.out.split())
    assert strata("verify", "--key", "nonsense").code not in (0, 5)


def test_bash_completes_what_was_begun() -> None:
    lines = (
        f'PATH={STRATA.parent}:$PATH; eval "$(_STRATA_COMPLETE=bash_source {STRATA})"',
        "COMP_WORDS=(strata com); COMP_CWORD=1",
        f'_strata_completion {STRATA}; printf "%s\\n" "${{COMPREPLY[@]}}"',
    )
    found = subprocess.run(["bash", "-c", "\n".join(lines)], capture_output=True, text=True)
    assert found.stdout.split() == ["compact"]


def test_progress_of_loads_goes_to_the_size_of_the_source(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        make_segment(settings, number)
    make_segment(settings, 3, omit=["trades"])
    site = Site(settings)
    told: list[int] = []
    survey = site.warehouse.survey(site.source)

    site.progress = told.append
    load_segments(site, [file.blocks for file in survey.pending])

    assert sum(told) == sum(file.info.size for file in survey.pending)
