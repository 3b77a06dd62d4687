"""`python -m tests.changed [COMMIT]`: the tests of what differs from a commit (default: HEAD).

Of a module that is its own file of tests, or else the folder that mirrors its folder; of what tests
share those that import it. `make changed` runs them.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path, PurePath

ROOT = Path(__file__).parents[1]
PACKAGES = ("api", "exporters", "pipelines", "transforms")


def covering(path: PurePath) -> Iterator[PurePath]:
    """The files and folders of tests to run when a file of the project was changed."""
    top, *_ = path.parts
    if top in PACKAGES:
        yield _mirror(path)
    elif top == "strata":
        yield from (PurePath("tests/docs"), PurePath("tests/end_to_end"))
    elif top == "docs":
        yield from (PurePath("tests/docs"), PurePath("tests/test_package.py"))
    elif top == "tests" and path.suffix == ".py":
        yield from _using(path)


def _mirror(path: PurePath) -> PurePath:
    own = PurePath("tests", path.parent, f"test_{path.stem}.py")
    if (ROOT / own).is_file():
        return own
    folder = own.parent
    while not any((ROOT / folder).glob("test_*.py")) and folder.parent != PurePath("tests"):
        folder = folder.parent
    return folder


def _using(path: PurePath) -> Iterator[PurePath]:
    """A file of tests itself, or those that import a kit; of fixtures their folder."""
    if path.name.startswith("test_"):
        yield path
    elif path.name == "conftest.py":
        yield path.parent
    else:
        module = re.escape(".".join(path.with_suffix("").parts))
        imports = re.compile(rf"^(from|import) {module}\b", re.MULTILINE)
        for file in sorted((ROOT / "tests").rglob("test_*.py")):
            if imports.search(file.read_text()):
                yield file.relative_to(ROOT)


def _changed(commit: str) -> Iterator[PurePath]:
    for command in (
        ["diff", "--name-only", commit],
        ["ls-files", "--others", "--exclude-standard"],
    ):
        done = subprocess.run(
            ["git", *command], cwd=ROOT, capture_output=True, text=True, check=True
        )
        yield from map(PurePath, done.stdout.splitlines())


def main() -> None:
    """Print what to run, each once; what was removed cannot be."""
    tests = {one for path in _changed(*(sys.argv[1:] or ["HEAD"])) for one in covering(path)}
    print(*sorted(str(one) for one in tests if (ROOT / one).exists()), sep="\n")


if __name__ == "__main__":
    main()
