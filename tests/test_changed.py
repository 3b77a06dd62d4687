"""What was changed tells which tests to run."""

from __future__ import annotations

from pathlib import Path, PurePath

from tests.cases import each_of
from tests.changed import PACKAGES, ROOT, covering


@each_of(
    ("changed", "expected"),
    [
        ("transforms/segments/inventory.py", ["tests/transforms/segments/test_inventory.py"]),
        ("transforms/segments/source_checks.py", ["tests/transforms/segments"]),
        ("pipelines/assets/keys.py", ["tests/pipelines"]),
        ("strata/__init__.py", ["tests/docs", "tests/end_to_end"]),
        ("docs/cookbook.md", ["tests/docs", "tests/test_package.py"]),
        ("tests/api/conftest.py", ["tests/api"]),
        ("tests/test_cases.py", ["tests/test_cases.py"]),
        ("tests/nobody_kit.py", []),
        ("CHANGELOG.md", []),
    ],
)
def test_a_changed_file_names_its_tests(changed: str, expected: list[str]) -> None:
    assert [str(one) for one in covering(PurePath(changed))] == expected


def test_every_module_has_tests_to_run() -> None:
    modules = [path for name in PACKAGES for path in (ROOT / name).rglob("*.py")]
    assert len(modules) > 300
    for module in modules:
        (tests,) = covering(module.relative_to(ROOT))
        assert tests != PurePath("tests"), module
        assert Path(ROOT, tests).exists(), module
