"""Builds the wheel, which installs one package, `strata`, with all others inside.

The folders of the repository have plain names, as imports should read well; `api` and `pipelines`
are no names for everybody's site-packages, where another distribution may have them, too. So a
wheel has them as `strata.api` and so on, and whatever imports or names them says so. An editable
installation is the repository as it lies.
"""

from __future__ import annotations

import ast
import re
import shutil
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

INSIDE = ("api", "exporters", "pipelines", "transforms")
"""The packages that a wheel has below `strata`."""

_NAMES = "|".join(INSIDE)
_RULES = (
    (re.compile(rf"^(\s*)from ({_NAMES})(?=[. ])", re.MULTILINE), r"\1from strata.\2"),
    # Names of modules as text: "transforms.tables", f"pipelines.commands.{name}".
    (re.compile(rf"(?<=\")({_NAMES})(?=\.[a-z_]+[a-z_.]*(?:{{\w+}})?\")"), r"strata.\1"),
    (re.compile(rf"(?<=files\(\")({_NAMES})(?=\"\))"), r"strata.\1"),
)
_YAML = re.compile(rf"(?<=module: )({_NAMES})(?=\.)")


class CustomBuildHook(BuildHookInterface):  # type: ignore[type-arg]
    """Adds the packages to a wheel under their names there."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write them anew for a wheel; an editable one takes them from where they are."""
        if version == "editable":
            return
        self._folder = Path(tempfile.mkdtemp(prefix="strata-wheel-"))
        relocate(Path(self.root), self._folder)
        build_data["force_include"][str(self._folder)] = "strata"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:  # noqa: ARG002
        """Remove what was written."""
        if version != "editable":
            shutil.rmtree(self._folder)


def relocate(root: Path, folder: Path) -> None:
    """Copy the packages below `root` into `folder`, with names as in a wheel."""
    for name in (*INSIDE, "strata"):
        for path in sorted((root / name).rglob("*")):
            if not path.is_file() or "__pycache__" in path.parts:
                continue
            place = folder / path.relative_to(root / "strata" if name == "strata" else root)
            place.parent.mkdir(parents=True, exist_ok=True)
            if path.suffix == ".py":
                place.write_text(_relocated(path))
            elif path.suffix == ".yaml":
                place.write_text(_YAML.sub(r"strata.\1", path.read_text()))
            else:
                shutil.copyfile(path, place)


def _relocated(path: Path) -> str:
    """A module's text with the names of a wheel. Raises `ValueError` where one is left."""
    text = path.read_text()
    for rule, name in _RULES:
        text = rule.sub(name, text)
    for node in ast.walk(ast.parse(text)):
        names = [one.name for one in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        for name in names:
            if name.partition(".")[0] in INSIDE:
                raise ValueError(f"{path}: the import of {name} would not be found in a wheel")
    return text
