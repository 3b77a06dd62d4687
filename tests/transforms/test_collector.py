import gc
from collections.abc import Iterator

import pytest

from transforms.collector import collector_paused


@pytest.fixture(autouse=True)
def _running() -> Iterator[None]:
    gc.enable()
    yield
    gc.enable()


def test_the_collector_runs_again_after_the_last_block() -> None:
    with collector_paused():
        with collector_paused():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()


def test_the_collector_runs_again_after_an_error() -> None:
    @collector_paused()
    def fail() -> None:
        assert not gc.isenabled()
        raise ValueError

    for _ in range(2):
        with pytest.raises(ValueError, match=r"^$"):
            fail()
        assert gc.isenabled()


def test_who_stopped_it_for_the_whole_process_finds_it_stopped() -> None:
    gc.disable()
    with collector_paused():
        pass
    assert not gc.isenabled()
