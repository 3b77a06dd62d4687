"""Views are made anew in these tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.known_views import views_made_anew


@pytest.fixture(autouse=True)
def _made_anew() -> Iterator[None]:
    with views_made_anew():
        yield
