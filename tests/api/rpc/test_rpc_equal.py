"""Whatever a request says, gRPC and REST say the same of it: pages, errors, their very words."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote, urlencode

import httpx2
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.api.chain_kit import ALICE, MARKET, ORDER, RESOURCE
from tests.api.rpc.kit import Client, FailedCallError, as_json, outcome
from tests.api.rpc.rich_site import SPEC, WITHDRAWAL


def _is_one_part(id_: str) -> bool:
    """Whether a text can be one part of a path; others are paths to something else."""
    return "/" not in id_ and id_ not in (".", "..")


_INT64 = st.integers(-(2**63), 2**63 - 1)
_SOME_IDS = (ALICE, MARKET, ORDER, RESOURCE, SPEC, WITHDRAWAL, "network", "03", "")
_TEXT = st.text(st.characters(codec="utf-8"), max_size=40)
_ID = st.sampled_from(_SOME_IDS) | st.sampled_from(_SOME_IDS).map(str.upper) | _TEXT
_PAGINATION = st.fixed_dictionaries(
    {},
    optional={
        "first": st.integers(-1, 7) | st.integers(-(2**31), 2**31 - 1),
        "last": st.integers(-1, 7) | st.integers(-(2**31), 2**31 - 1),
        "after": _TEXT,
        "before": _TEXT,
        "newest_first": st.booleans(),
    },
)
_DATES = st.fixed_dictionaries({}, optional={"start_timestamp": _INT64, "end_timestamp": _INT64})
_PAGED = {"pagination": _PAGINATION}
_REQUESTS = st.one_of(
    st.tuples(
        st.just(("ListWithdrawals", "/api/v2/withdrawals", "")),
        st.fixed_dictionaries({}, optional={**_PAGED, "party_id": _ID, "date_range": _DATES}),
    ),
    st.tuples(
        st.just(("ListOracleData", "/api/v2/oracle/data", "")),
        st.fixed_dictionaries({}, optional={**_PAGED, "oracle_spec_id": _ID}),
    ),
    st.tuples(
        st.just(("ListNodeSignatures", "/api/v2/node/signatures", "")),
        st.fixed_dictionaries({}, optional={**_PAGED, "id": _ID}),
    ),
    st.tuples(
        st.just(("ListLiquidityProvisions", "/api/v2/liquidity/provisions", "")),
        st.fixed_dictionaries(
            {},
            optional={
                **_PAGED,
                "market_id": _ID,
                "party_id": _ID,
                "reference": _TEXT,
                "live": st.booleans(),
            },
        ),
    ),
    st.tuples(
        st.just(("ListOrderVersions", "/api/v2/order/versions/", "order_id")),
        st.fixed_dictionaries({"order_id": _ID.filter(_is_one_part)}, optional=_PAGED),
    ),
    st.tuples(
        st.just(("GetWithdrawal", "/api/v2/withdrawal/", "id")),
        st.fixed_dictionaries({"id": _ID.filter(_is_one_part)}),
    ),
    st.tuples(
        st.just(("GetSpamStatistics", "/statistics/spam/", "party_id")),
        st.fixed_dictionaries({"party_id": _ID.filter(_is_one_part)}),
    ),
)


def _query(fields: dict[str, Any], above: str = "") -> list[tuple[str, str]]:
    """The fields as query parameters."""
    pairs: list[tuple[str, str]] = []
    for name, value in fields.items():
        if isinstance(value, dict):
            pairs += _query(value, f"{name}.")
        else:
            text = str(value).lower() if isinstance(value, bool) else str(value)
            pairs.append((above + name, text))
    return pairs


@settings(
    max_examples=250, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(request=_REQUESTS)
def test_both_faces_answer_the_same(
    rest: httpx2.Client, rpc: Client, request: tuple[tuple[str, str, str], dict[str, Any]]
) -> None:
    (method, path, in_path), fields = request
    in_query = {name: value for name, value in fields.items() if name != in_path}
    url = (
        f"{path}{quote(fields[in_path], safe='') if in_path else ''}?{urlencode(_query(in_query))}"
    )
    whole = rest.get(url)
    found = outcome(lambda: rpc.ask(method, **fields))
    body = found.body if isinstance(found, FailedCallError) else as_json(found.message)
    assert body == whole.json()
    assert found.headers["x-block-height"] == whole.headers["x-block-height"]
