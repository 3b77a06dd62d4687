"""An environment as people have it: the wheel, and the packages that its metadata names."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from importlib.metadata import Distribution, distributions
from pathlib import Path

from hatchling.builders.wheel import WheelBuilder
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
INSTALLED = Path(sysconfig.get_path("purelib"))


def make_environment(folder: Path, extra: str = "") -> Path:
    """Build the wheel and install it, with what it and its extra require, and nothing else.

    Packages come from this environment, as links: no registry is asked.
    """
    build = WheelBuilder(str(ROOT)).build(directory=str(folder / "wheel"), versions=["standard"])
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    pip = [sys.executable, "-m", "pip", "--python", str(folder / "bin/python"), "install"]
    subprocess.run([*pip, "--quiet", "--no-deps", "--no-index", *build], check=True)
    for name in closure(f"strata[{extra}]" if extra else "strata", packages(folder)):
        if name != "strata":
            _link(_distribution(name, INSTALLED), packages(folder))
    return folder


def bare_environment(folder: Path, *requirements: str) -> Path:
    """What these packages require, and nothing else: not Strata either."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    for requirement in requirements:
        for name in closure(requirement, packages(folder)):
            _link(_distribution(name, INSTALLED), packages(folder))
    return folder


def packages(environment: Path) -> Path:
    """The folder of an environment's packages."""
    (folder,) = environment.glob("lib/python*/site-packages")
    return folder


def closure(requirement: str, own: Path) -> set[str]:
    """The packages that a requirement installs, by the metadata in `own`, else in this environment.

    A package that is not installed here fails the test.
    """
    names: set[str] = set()
    seen: set[tuple[str, str]] = set()
    waiting = [Requirement(requirement)]
    while waiting:
        required = waiting.pop()
        name = canonicalize_name(required.name)
        extras = [extra for extra in ("", *required.extras) if (name, extra) not in seen]
        seen.update((name, extra) for extra in extras)
        names.add(name)
        for text in _distribution(name, own, INSTALLED).requires or ():
            marker = Requirement(text).marker
            if any(not marker or marker.evaluate({"extra": extra}) for extra in extras):
                waiting.append(Requirement(text))
    return names


def _distribution(name: str, *folders: Path) -> Distribution:
    for folder in folders:
        for distribution in distributions(name=name, path=[str(folder)]):
            return distribution
    raise AssertionError(f"{name} is required and not installed in {folders}")


def _link(distribution: Distribution, folder: Path) -> None:
    for path in distribution.files or ():
        top = path.parts[0]
        if top != ".." and not (folder / top).exists():
            (folder / top).symlink_to(INSTALLED / top)
