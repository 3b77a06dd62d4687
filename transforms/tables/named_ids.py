"""The ids of one byte that the network shows, and takes, by a name (decision 23)."""

from __future__ import annotations

from collections.abc import Mapping

NAMES: Mapping[str, str] = {
    "00": "VOTE",
    "03": "network",
    "04": "XYZalpha",
    "05": "XYZbeta",
    "06": "XYZdelta",
    "07": "XYZepsilon",
    "08": "XYZgamma",
    "09": "fBTC",
    "0a": "fDAI",
    "0b": "fEURO",
    "0c": "fUSDC",
}
"""The names by lower-case hex."""

HEX_OF: Mapping[str, str] = {name: text for text, name in NAMES.items()}
"""The other way."""
