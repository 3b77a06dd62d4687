"""The benchmark of the read API asks what there is, and says what it lacks."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import duckdb
import pytest

from exporters.locations import Locations
from tests.api.server_kit import serving, settings
from tests.benchmarks.api_questions import Size, questions
from tests.benchmarks.clones import make_clones
from tests.benchmarks.market import HEAVY, LIGHT, party_counts, party_sql
from tests.benchmarks.wrk import require_wrk

SEGMENTS = 4


@pytest.fixture(scope="module")
def cloned(tmp_path_factory: pytest.TempPathFactory) -> Locations:
    folder = tmp_path_factory.mktemp("cloned")
    make_clones(folder, SEGMENTS, each=2)
    return Locations(
        source="", warehouse=str(folder / "warehouse"), archive=str(folder / "archive")
    )


def test_every_question_to_a_cloned_history_finds_something(cloned: Locations) -> None:
    with serving(settings(cloned)) as served, served.client() as client:
        for question in questions(Size.cloned(SEGMENTS)):
            for path in question.paths[:5]:
                answer = client.get(path)
                assert answer.status_code == 200, (path, answer.text)
                assert '"edges":[]' not in answer.text, path


def test_plain_duckdb_finds_the_same_things(cloned: Locations) -> None:
    with duckdb.connect(f"{cloned.warehouse}/current.duckdb", read_only=True) as con:
        for question in questions(Size.cloned(SEGMENTS)):
            if question.sql:
                values = [question.ids[0]] if "$1" in question.sql else []
                assert con.execute(question.sql, values).fetchall(), question.sql


def test_cloned_volumes_hold_each_order_and_withdrawal_once(cloned: Locations) -> None:
    size = Size.cloned(SEGMENTS)
    with duckdb.connect(f"{cloned.warehouse}/current.duckdb", read_only=True) as con:
        asked = "select count(*), count(distinct id), count(distinct _segment) from {}".format
        assert con.sql(asked("orders")).fetchall() == [(size.orders * 4, size.orders, SEGMENTS)]
        assert con.sql(asked("withdrawals")).fetchall() == [
            (size.withdrawals * 2, size.withdrawals, SEGMENTS)
        ]


def test_parties_have_as_many_withdrawals_as_the_benchmark_says() -> None:
    withdrawals = 250_000
    parties = f"select {party_sql('i', withdrawals)} as party from range({withdrawals}) t(i)"
    with duckdb.connect() as con:
        counted = con.execute(f"select count(*) from ({parties}) group by party").fetchall()
    found = Counter(count for (count,) in counted)
    counts = party_counts(withdrawals)
    assert found[HEAVY] == counts["heavy"] == 80
    assert found[LIGHT] + found[LIGHT + 1] == counts["light"] == 3947
    assert found[LIGHT + 1] == 14


def test_where_wrk_is_missing_the_benchmark_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SystemExit, match="apt-get install wrk"):
        require_wrk()
