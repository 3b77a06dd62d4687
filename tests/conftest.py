"""What holds for all tests."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import sys
import tempfile
from collections import Counter, defaultdict
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import settings

_SERVERS = "STRATA_TEST_SERVERS"
_SLOWEST = 10
_WAITING_WORKERS = 2
_MEMORY = Path("/dev/shm")  # Linux's file system in memory
_MEMORY_BYTES = 8 * 2**30
_LONG_FILES = (
    "tests/model/test_model.py",
    "tests/faults/test_faults.py",
    "tests/end_to_end/test_bucket_warehouse.py",
    "tests/exporters/loading/test_archive_load.py",
    "tests/end_to_end/test_alerts.py",
    "tests/api/test_lost_data.py",
    "tests/exporters/lake/test_exactness.py",
    "tests/end_to_end/test_attach.py",
    "tests/end_to_end/test_first_hour.py",
    "tests/pipelines/commands/test_copy.py",
    "tests/transforms/stores/test_silence.py",
    "tests/api/test_http_process.py",
    "tests/transforms/warehouse/load/test_loader.py",
    "tests/end_to_end/test_duckdb15.py",
    "tests/pipelines/test_background.py",
    "tests/docs/test_cookbook.py",
    "tests/end_to_end/test_recorded_segments.py",
    "tests/pipelines/site/test_verifying_lake.py",
    "tests/api/rpc/test_rpc_streams.py",
    "tests/exporters/lake/test_filters.py",
    "tests/transforms/warehouse/log/test_log.py",
    "tests/docs/test_notebook.py",
    "tests/transforms/warehouse/test_load_memory.py",
    "tests/api/rpc/test_rpc_process.py",
    "tests/cluster/test_configuration.py",
    "tests/exporters/publishing/test_publication.py",
    "tests/pipelines/site/test_site_check.py",
    "tests/pipelines/test_stopping.py",
    "tests/transforms/test_duck.py",
    "tests/transforms/warehouse/files/test_local_files.py",
    "tests/exporters/mirroring/test_lake_mirror.py",
    "tests/exporters/exports/test_range_export.py",
    "tests/transforms/warehouse/checks/test_log_repair.py",
    "tests/transforms/warehouse/checks/test_rebuild.py",
    "tests/transforms/warehouse/test_warehouse.py",
    "tests/transforms/warehouse/merge/test_merge_plan.py",
    "tests/transforms/warehouse/merge/test_compaction.py",
    "tests/transforms/warehouse/test_processes.py",
    "tests/transforms/warehouse/test_load_errors.py",
    "tests/transforms/warehouse/test_table_names.py",
    "tests/transforms/warehouse/views/test_catalog_views.py",
    "tests/transforms/warehouse/views/test_catalog_file.py",
)
"""Those that take longest: at the end, one of them would leave the other cores idle."""

# How long one example takes says more about the machine and its other work than about the code.
settings.register_profile("strata", deadline=None, max_examples=60)
settings.load_profile("strata")


def pytest_addoption(parser: pytest.Parser) -> None:
    """How long campaigns are: a few tries in the gate, thousands when asked."""
    parser.addoption("--kills", type=int, default=6, help="kills of each test of crashes")
    parser.addoption("--requests", type=int, default=600, help="of clients of which many leave")
    parser.addoption("--rewritings", type=int, default=40, help="of an archive's past")
    parser.addoption("--steps", type=int, default=100, help="of the model test, from 101 on random")


def pytest_configure(config: pytest.Config) -> None:
    """Name the folder that all processes of this session share for a server; see `weed_kit`."""
    # What a shell starts with `&` ignores SIGINT. Dagster gives SIGTERM the same handler after a
    # run, and then waits a minute for programs of its own that it cannot end any more.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if not hasattr(config, "workerinput"):
        if "TMPDIR" not in os.environ and _has_room(_MEMORY):
            os.environ["TMPDIR"], tempfile.tempdir = str(_MEMORY), None
        os.environ[_SERVERS] = tempfile.mkdtemp(prefix="strata-servers-")


def _has_room(folder: Path) -> bool:
    """Whether tests may use a file system in memory: a quarter of their time is a disk's.

    They run programs there, which a container may forbid, and write some gigabytes.
    """
    try:
        system = os.statvfs(folder)
    except OSError:
        return False
    is_executable = not system.f_flag & os.ST_NOEXEC
    return is_executable and system.f_bavail * system.f_frsize >= _MEMORY_BYTES


def pytest_unconfigure(config: pytest.Config) -> None:
    """Remove the folder; where there is a server, who supervises it does that."""
    if not hasattr(config, "workerinput"):
        folder = Path(os.environ[_SERVERS])
        shutil.rmtree(folder / "folders", ignore_errors=True)
        with suppress(OSError):
            folder.rmdir()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the ten slowest files, as a file is what one worker runs."""
    seconds = defaultdict[str, float](float)
    for reports in terminalreporter.stats.values():
        for report in reports:
            if isinstance(report, pytest.TestReport):
                seconds[report.nodeid.partition("::")[0]] += report.duration
    if len(seconds) > _SLOWEST:
        terminalreporter.section("slowest files")
        for path, duration in sorted(seconds.items(), key=lambda item: -item[1])[:_SLOWEST]:
            terminalreporter.write_line(f"{duration:6.1f} s  {path}")


def pytest_collection_finish(session: pytest.Session) -> None:
    """Let a server start that will be wanted, so that nobody waits for it."""
    gc.collect()
    gc.freeze()  # what was imported stays: no collection needs to look at it again
    gc.set_threshold(10_000, 20, 20)  # collecting more often, a fiftieth of the time finds little
    if not session.items or session.config.option.collectonly:
        return
    from tests.known_views import take_known_views

    take_known_views()
    kit = sys.modules.get("tests.weed_kit")
    if kit and "tests.s3_kit" in sys.modules:
        kit.start_shared()


@pytest.fixture
def kills(request: pytest.FixtureRequest) -> int:
    """How many kills a test of crashes is to survive."""
    count: int = request.config.getoption("--kills")
    return count


@pytest.fixture
def requests(request: pytest.FixtureRequest) -> int:
    """How many requests clients send, of whom many leave."""
    count: int = request.config.getoption("--requests")
    return count


@pytest.fixture
def rewritings(request: pytest.FixtureRequest) -> int:
    """How often an archive's past is rewritten."""
    count: int = request.config.getoption("--rewritings")
    return count


@pytest.fixture
def steps(request: pytest.FixtureRequest) -> int:
    """How many steps the model test takes."""
    count: int = request.config.getoption("--steps")
    return count


def pytest_xdist_auto_num_workers() -> int:
    """Some processes more than cores: many tests wait for a network, a disk or a process."""
    return (os.cpu_count() or 1) + _WAITING_WORKERS


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the files that take longest.

    Refuse tests of one id: of those, pytest-xdist would run one and leave out the others.
    """
    places = {path: place for place, path in enumerate(_LONG_FILES)}
    items.sort(key=lambda item: places.get(item.nodeid.partition("::")[0], len(places)))
    counts = Counter(item.nodeid for item in items)
    if doubled := [node for node, count in counts.items() if count > 1]:
        raise pytest.UsageError(f"give these tests ids of their own: {', '.join(doubled)}")
