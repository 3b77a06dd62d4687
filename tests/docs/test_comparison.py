"""The page of comparison: each row names what shows it, and that is there."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

from pipelines.commands.group import COMMANDS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "comparison.md").read_text()
_ROWS = [line.strip("|").split(" | ") for line in PAGE.splitlines() if line.startswith("| ")][1:]


@cache
def _tests(path: Path) -> set[str]:
    tree = ast.parse(path.read_text())
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def test_every_row_names_a_test_or_command_that_is_there() -> None:
    for feature, answer, _, shown, _ in _ROWS:
        named = re.findall("`(.*?)`", shown)
        assert any(one.startswith("tests/") for one in named), feature
        for one in named:
            path, colons, test = one.partition("::")
            if colons:
                assert test in _tests(ROOT / path), one
            else:
                assert one.removeprefix("strata ") in (*COMMANDS, "serve"), one
        assert answer.strip() in ("yes", "no")


def test_the_sum_is_that_of_the_rows() -> None:
    found = sum(answer.strip() == "yes" for _, answer, *_ in _ROWS)
    assert len(_ROWS) == 31
    assert f"Strata: {found} of {len(_ROWS)}." in PAGE
