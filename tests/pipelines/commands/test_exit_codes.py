"""Every exit code of the documentation, from processes; what a full or read-only disk says."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pipelines.settings import Settings
from tests.command_kit import run_strata
from tests.mounts_kit import mounted, other_file_system
from tests.pipelines.command_kit import call, places
from tests.pipelines.kit import make_segment, site_settings
from tests.segments_kit import KIT_CHAIN

STRATA = Path(sys.executable).parent / "strata"
ZIP = f"{KIT_CHAIN}/blocks/{KIT_CHAIN}-blocks-1-10.zip"


def variables(place: Path) -> dict[str, str]:
    return {
        **places(site_settings(place)),
        "STRATA_LAKE": "0",
        "DAGSTER_HOME": str(place / "home"),
    }


def strata(
    place: Path, *arguments: str, before: tuple[str, ...] = ()
) -> subprocess.CompletedProcess[str]:
    """Run a command in a process of its own; started by the program `before`, if one is given."""
    environment = {**os.environ, **variables(place)}
    if not before:
        return run_strata(*arguments, environment=environment)
    command = [*before, str(STRATA), *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True)


def called(place: Path, *arguments: str) -> int:
    """The exit code of a command in this process, for what is done before and after."""
    return call(variables(place), *arguments).returncode


def told(answer: subprocess.CompletedProcess[str], code: int) -> str:
    """The one sentence on stderr of a command that left with this code."""
    assert answer.returncode == code, answer.stderr
    (line,) = answer.stderr.splitlines()
    assert line.startswith("strata: ")
    return line


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("done")
    make_segment(site_settings(place), 0)
    for command in ("load", "publish"):
        assert called(place, command) == 0
    return place


@pytest.fixture
def place(done: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(done, tmp_path / "place"))


def test_5_is_a_missing_manifest_which_repair_and_load_make_again(place: Path) -> None:
    (manifest,) = (place / "warehouse" / "manifests").iterdir()
    manifest.unlink()
    line = told(strata(place, "export", "blocks", "1", "10", "--dry-run"), 5)
    assert line.endswith(f"{manifest} is missing: run strata repair, then strata load")
    assert called(place, "repair") == 5
    assert called(place, "load") == 0
    assert called(place, "sql", "select 1") == 0


def test_5_is_a_missing_index_file_which_repair_makes_again(place: Path) -> None:
    (index,) = (place / "warehouse" / "index").iterdir()
    index.unlink()
    assert called(place, "sql", "select 1") == 0  # which needs none
    assert called(place, "verify") == 5
    assert called(place, "repair") == 5
    assert called(place, "verify") == 0


def test_1_is_something_refused(place: Path) -> None:
    settings = Settings(source=str(place / "source"), warehouse="", archive="")
    make_segment(settings, 1, omit=["trades"])
    assert strata(place, "load").returncode == 1
    assert called(place, "run") == 1


def test_2_is_usage_or_a_setting(place: Path) -> None:
    assert "'ftp://x' is no store" in told(strata(place, "status", "--source", "ftp://x"), 2)
    assert strata(place, "export").returncode == 2
    fetch = ("fetch", str(place / "archive"), "--out", str(place / "out"), "--table")
    for words in (
        ("export", "assets", "1", "10", "--dry-run"),
        ("export", "blocks", "--from", "2023-13-01", "--dry-run"),
        (*fetch, "accounts"),
        (*fetch, "blocks", "--to", "tomorrow"),
        ("copy", str(place / "copy.duckdb"), "--times", "2023-02-30..2023-03-01"),
    ):
        answer = strata(place, *words)
        assert answer.returncode == 2, answer.stderr
        assert "choose one of" in answer.stderr or "neither a block nor a time" in answer.stderr


def test_3_is_a_block_range(place: Path) -> None:
    told(strata(place, "export", "blocks", "1", "15", "--dry-run"), 3)
    outside = told(strata(place, "export", "blocks", "1", "20", "--dry-run"), 3)
    assert "no segment holds 11-20; the warehouse holds 1-10" in outside


def test_4_is_a_conflict_in_the_archive(place: Path) -> None:
    shutil.rmtree(place / "archive")
    target = place / "archive" / ZIP
    target.parent.mkdir(parents=True)
    target.write_bytes(b"something else")

    answer = strata(place, "publish")

    assert answer.returncode == 4
    assert ZIP.rpartition("/")[2] in answer.stdout


def test_5_is_damage_and_findings(place: Path) -> None:
    (data,) = (place / "warehouse" / "data" / "blocks").iterdir()
    raw = bytearray(data.read_bytes())
    raw[len(raw) // 2 :] = bytes(len(raw) - len(raw) // 2)
    data.write_bytes(raw)

    assert strata(place, "verify").returncode == 5
    shutil.rmtree(place / "archive")
    shutil.rmtree(place / "warehouse" / "parts", ignore_errors=True)
    assert called(place, "publish") == 5


def test_6_is_a_lock_of_somebody_else(place: Path) -> None:
    (volume,) = (place / "warehouse" / "state").glob("*.duckdb")
    holding = "import duckdb, sys; c = duckdb.connect(sys.argv[1]); print(1, flush=True); input()"
    command = [sys.executable, "-c", holding, str(volume)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        other.stdout.readline()
        line = told(strata(place, "sql", "from accounts"), 6)
        other.kill()
    assert "another program has it open to write" in line
    assert str(volume) in line


def test_7_is_a_limit_of_the_machine(place: Path) -> None:
    shutil.rmtree(place / "warehouse")
    limited = ("sh", "-c", 'ulimit -f 100; PYTHONDONTWRITEBYTECODE=1 exec "$0" "$@"')

    line = told(strata(place, "load", before=limited), 7)

    assert f"{place}/warehouse/" in line
    assert "File too large: raise the limit of a file's size" in line
    answer = strata(place, "run", before=limited)
    assert answer.returncode == 7
    *_, line = answer.stderr.splitlines()  # after what it was about to load
    assert "Dagster's database says: " in line
    assert called(place, "load") == 0
    assert called(place, "verify") == 0


def test_7_is_a_full_disk_too(place: Path) -> None:
    shutil.rmtree(place / "warehouse")
    (place / "warehouse").mkdir()
    for kilobytes in (64, 300, 700):
        small = f"mount -t tmpfs -o size={kilobytes}k none '{place}/warehouse'"
        line = told(strata(place, "load", before=mounted(small)), 7)
        assert f"strata: {place}/warehouse/" in line
        assert "No space left on device: free some room there" in line
        assert "damaged" not in line


def test_7_of_a_full_archive_or_mirror_names_the_place(place: Path) -> None:
    archive, mirror = str(place / "archive"), str(place / "mirror")
    shutil.move(archive, place / "whole")
    for folder in (archive, mirror):
        Path(folder).mkdir()
    fetch = ("fetch", "--all", str(place / "whole"), "--out", mirror)
    for kilobytes in (16, 24, 40):
        for folder, arguments in ((archive, ("publish",)), (mirror, fetch)):
            small = mounted(f"mount -t tmpfs -o size={kilobytes}k none '{folder}'")
            line = told(strata(place, *arguments, before=small), 7)
            assert f"strata: {folder}/" in line
            assert "No space left on device: free some room there" in line


def test_7_is_a_scratch_folder_that_is_read_only_and_no_volume_is_blamed(place: Path) -> None:
    scratch = place / "warehouse" / "scratch"
    scratch.mkdir(exist_ok=True)
    fixed = mounted(f"mount --bind '{scratch}' '{scratch}' && mount -o remount,ro,bind '{scratch}'")

    answer = strata(place, "verify", before=fixed)
    assert answer.returncode == 7, (answer.stdout, answer.stderr)
    assert "Read-only file system): make it writable" in answer.stderr
    assert "damaged" not in answer.stdout + answer.stderr


def test_7_is_a_folder_of_the_warehouse_on_another_file_system(place: Path) -> None:
    make_segment(site_settings(place), 1)
    manifests = place / "warehouse" / "manifests"
    with other_file_system(place) as other:
        shutil.copytree(manifests, other / "manifests")
        shutil.rmtree(manifests)
        manifests.symlink_to(other / "manifests")
        line = told(strata(place, "load"), 7)
    assert f"{manifests}/000000011-000000020." in line
    assert "a folder above this file is a mount of its own" in line


_LACKING = {
    "flock": "#include <errno.h>\nint flock(int file, int way) { errno = ENOLCK; return -1; }\n",
    "fsync": "#include <errno.h>\n#include <sys/stat.h>\n#include <unistd.h>\n"
    "int fsync(int file) { struct stat is; fstat(file, &is);\n"
    "if (S_ISDIR(is.st_mode)) { errno = EINVAL; return -1; } return fdatasync(file); }\n",
}


@pytest.mark.parametrize("call", _LACKING)
def test_7_is_a_file_system_without_a_call_and_its_folder_is_named(
    place: Path, tmp_path: Path, call: str
) -> None:
    make_segment(site_settings(place), 1)
    source, library = tmp_path / "lacking.c", tmp_path / "lacking.so"
    source.write_text(_LACKING[call])
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
    line = told(strata(place, "load", before=("env", f"LD_PRELOAD={library}")), 7)
    assert line.startswith(f"strata: {place / 'warehouse'}/")
    assert line.endswith(f": choose a folder on a file system that knows {call}")


def test_a_run_needs_no_room_in_tmpdir(tmp_path: Path) -> None:
    for number in range(4):
        make_segment(site_settings(tmp_path), number)
    full = tmp_path / "full"
    full.mkdir()
    fill = f"! head -c 9000 /dev/zero > {full}/x 2> {full}.log"
    mount = f"mount -t tmpfs -o size=4k none {full} && {fill}"
    before = (*mounted(mount), "env", f"TMPDIR={full}")
    answer = strata(tmp_path, "run", before=before)
    assert answer.returncode == 0, answer.stderr
    assert "OperationalError" not in answer.stderr
