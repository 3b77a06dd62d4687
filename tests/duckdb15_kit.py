"""The DuckDB of the release before, as people have it: `strata shell`'s program, and the library.

`make duckdb15` installs the library, for tests only, into `.venv/duckdb15`; without it the calling
test fails with that advice.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

PROGRAM = Path(sysconfig.get_path("purelib")) / "duckdb_cli" / "duckdb"
"""The program `duckdb` of that release."""

HOME_15 = Path(__file__).parents[1] / ".venv" / "duckdb15"
_WITH_HTTPFS = HOME_15.with_name("duckdb-extensions")

# Values as DuckDB's text, in no order; what a client makes of them is its own affair.
_ANSWERS = """
import json, sys
import duckdb

with duckdb.connect(sys.argv[1], read_only=True) as con:
    con.execute("set timezone = 'UTC'")
    con.execute("set enable_progress_bar = false")
    found = {"version": duckdb.__version__}
    views = {}
    for schema, view, *column in con.execute(
        "select schema_name, table_name, column_name, data_type from duckdb_columns() "
        "where not internal order by schema_name, table_name, column_index"
    ).fetchall():
        views.setdefault((schema, view), []).append(column)
    for (schema, view), columns in views.items():
        texts = ", ".join(f'''"{column}"::varchar''' for column, _ in columns)
        query = f'select to_json([{texts}])::varchar as line from "{schema}"."{view}"'
        query = f"select count(*), md5(string_agg(line, chr(10) order by line)) from ({query})"
        found[f"{schema}.{view}"] = [columns, *con.execute(query).fetchone()]
    comments = "from duckdb_columns() select schema_name, table_name, column_name, comment"
    found["comments"] = sorted(con.execute(f"{comments} where comment is not null").fetchall())
print(json.dumps(found))
"""

# Texts, as clients of two releases make other values of some types.
_ASK = """
import json, sys
from pathlib import Path
import duckdb

con = duckdb.connect()
con.execute("set enable_progress_bar = false")  # of what takes seconds it would be among the rows
extension, = Path(duckdb.__file__).parents[1].glob("duckdb_extension_httpfs/**/*.duckdb_extension")
con.execute(f"load '{extension}'")
con.execute(f"attach '{sys.argv[1]}' as vega (read_only)")
con.execute("use vega")
con.execute("set timezone = 'Asia/Kolkata'")
rows = [con.execute(query).fetchall() for query in json.load(sys.stdin)]
print(json.dumps([duckdb.__version__, rows], default=str))
"""


def answers(views: Path, *, of_15: bool) -> dict[str, object]:
    """Of all views and tables in a file columns, number of rows and a hash of them, by name.

    Asked with our DuckDB or with that of the release before; `version` says which.
    """
    environment = _environment(of_15=of_15)
    command = [sys.executable, "-c", _ANSWERS, str(views)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, object] = json.loads(done.stdout)
    return found


def asked(views: Path, expressions: Sequence[str], *, of_15: bool) -> list[object]:
    """What expressions are, as JSON, in our DuckDB or in that of the release before."""
    script = (
        "import json, sys, duckdb; con = duckdb.connect(sys.argv[1], read_only=True); "
        "print(json.dumps(con.execute(f'select {sys.argv[2]}').fetchone()))"
    )
    environment = _environment(of_15=of_15)
    command = [sys.executable, "-c", script, str(views), ", ".join(expressions)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return list(json.loads(done.stdout))


def asked_15(views: Path, query: str) -> str:
    """What the program of that release prints for a query, as CSV."""
    command = [str(PROGRAM), "-readonly", "-csv", "-noheader", str(views), query]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def asked_over_http(database: str, queries: Sequence[str]) -> list[Any]:
    """The rows that queries give in that release, with httpfs alone, over an attached address."""
    if not _WITH_HTTPFS.exists():
        pytest.fail(f"{_WITH_HTTPFS} is not there: run `make .venv/duckdb-extensions/.installed`")
    done = subprocess.run(
        [sys.executable, "-c", _ASK, database],
        env={**os.environ, "PYTHONPATH": str(_WITH_HTTPFS)},
        input=json.dumps(queries),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    version, rows = json.loads(done.stdout)
    assert version.startswith("1.5.")
    return list(rows)


def _environment(*, of_15: bool) -> dict[str, str]:
    if not HOME_15.exists():
        pytest.fail(f"{HOME_15} is not there: run `make duckdb15`")
    return {**os.environ, "PYTHONPATH": str(HOME_15)} if of_15 else {**os.environ}
