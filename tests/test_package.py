"""What is shipped: the wheel, the version and what is said of both."""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import version
from pathlib import Path
from zipfile import ZipFile

from click.testing import CliRunner
from hatchling.builders.wheel import WheelBuilder
from packaging.version import Version

from pipelines.commands.group import strata
from tests.cases import each_of

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
DOCUMENTS = [
    str(path.relative_to(ROOT)) for path in (*ROOT.glob("*.md"), *sorted(ROOT.glob("docs/*.md")))
]
FOLDERS = (
    *("api", "dagster_home", "docs", "exporters", "pipelines", "strata", "tests", "transforms"),
)
NAMED_PLACE = re.compile(rf"(?<![\w/.<>-])(?:(?:{'|'.join(FOLDERS)})/[\w/.*-]*\w|[\w*/]+\.py\b)")
INSIDE = ("api", "exporters", "pipelines", "transforms")


def shipped(package: str) -> set[str]:
    """The files of a package, links followed, as paths in a wheel."""
    above = "" if package == "strata" else "strata"
    return {
        str(Path(above, path.relative_to(ROOT)))
        for path in (ROOT / package).rglob("*")
        if path.is_file() and path.parent.name != "__pycache__"
    }


def test_the_wheel_holds_every_file_of_the_packages_and_their_types(tmp_path: Path) -> None:
    (wheel,) = WheelBuilder(str(ROOT)).build(directory=str(tmp_path), versions=["standard"])
    with ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert names == set().union(*map(shipped, (*INSIDE, "strata")))
    assert {"strata/py.typed", *(f"strata/{package}/py.typed" for package in INSIDE)} <= names
    assert {f"strata/{one}" for one in ("api/core/protos.binpb", "cli.py")} <= names


def test_the_version_stands_in_one_place_and_is_shown_as_it_is() -> None:
    stated = PROJECT["project"]["version"]
    output = CliRunner().invoke(strata, ["--version"], prog_name="strata").output
    assert version("strata") == stated == str(Version(stated))
    assert output == f"strata, version {stated}\n"


@each_of("document", DOCUMENTS)
def test_every_file_that_a_document_links_to_exists(document: str) -> None:
    path = ROOT / document
    links = re.findall(r"\]\(([^)#]+)", path.read_text())
    assert [link for link in links if "://" not in link and not (path.parent / link).exists()] == []


@each_of("document", DOCUMENTS)
def test_every_place_in_the_project_that_a_document_names_exists(document: str) -> None:
    named = set(NAMED_PLACE.findall((ROOT / document).read_text()))
    assert sorted(name for name in named if not is_there(name)) == []


def is_there(name: str) -> bool:
    """Whether a path exists; that of a module may begin below its package."""
    below = (path for folder in FOLDERS for path in (ROOT / folder).rglob(name))
    return any(ROOT.glob(name)) or (name.endswith(".py") and any(below))


def test_the_changelog_begins_with_what_is_not_released_and_descends() -> None:
    headings = re.findall(r"^## \[(.+?)\](?: - (\S+))?$", (ROOT / "CHANGELOG.md").read_text(), re.M)
    (first, undated), *released = headings
    assert (first, undated) == ("Unreleased", "")
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\d", day) for _, day in released)
    versions = [Version(number) for number, _ in released]
    assert versions == sorted(versions, reverse=True)
    current = Version(PROJECT["project"]["version"])
    if current.is_devrelease:
        assert all(version < current for version in versions)
    else:
        assert versions[0] == current
