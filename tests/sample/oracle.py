"""The oracles that price and settle the sample's markets."""

from __future__ import annotations

from tests.sample.participants import Participants, Terms
from tests.sample.record import Recorder
from tests.sample.terms import oracle_names
from tests.sample.text import jsonb

_PUBLIC_KEY, _ETH_ADDRESS = "00", "01"


def _array(*values: str) -> str:
    """The text of a `bytea[]`."""
    return "{" + ",".join(f'"\\\\x{value}"' for value in values) + "}"


class Oracle:
    """Declares the specs of markets and broadcasts their data."""

    def __init__(self, participants: Participants, recorder: Recorder) -> None:
        self._recorder = recorder
        # A signer is a tag byte and then the key, or the address without its 0x, as ASCII.
        self._price_signer = _array(
            _ETH_ADDRESS + participants.address("oracle")[2:].encode().hex()
        )
        self._clock_signer = _array(_PUBLIC_KEY + participants.providers[0].encode().hex())

    def declare(self, terms: Terms) -> None:
        """The market's two specs become active."""
        self._spec(terms.settlement_spec, "ACTIVE")
        self._spec(terms.termination_spec, "ACTIVE")

    def quote(self, terms: Terms, price: int) -> None:
        """Broadcast a price that the market's settlement spec matches."""
        self._data(self._price_signer, terms.settlement_spec, oracle_names(terms)[0], str(price))

    def terminate(self, terms: Terms) -> None:
        """Broadcast the end of trading."""
        self._data(self._clock_signer, terms.termination_spec, oracle_names(terms)[1], "true")
        self._spec(terms.termination_spec, "DEACTIVATED")

    def settle(self, terms: Terms, price: int) -> None:
        """Broadcast the settlement price."""
        self.quote(terms, price)
        self._spec(terms.settlement_spec, "DEACTIVATED")

    def _data(self, signers: str, spec: str, name: str, value: str) -> None:
        self._recorder.begin_transaction()
        self._recorder.put(
            "oracle_data",
            signers=signers,
            data=jsonb([{"Name": name, "Value": value}]),
            matched_spec_ids=_array(spec),
            broadcast_at=self._recorder.time,
        )

    def _spec(self, spec: str, status: str) -> None:
        self._recorder.put(
            "oracle_specs",
            (spec, self._recorder.time),
            id=spec,
            created_at=self._recorder.time,
            updated_at=0,
            signers=self._price_signer,
            filters=jsonb([{"key": {"Type": 2, "name": "prices"}, "conditions": []}]),
            data=None,
            status=f"STATUS_{status}",
        )
