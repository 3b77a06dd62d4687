from __future__ import annotations

from collections.abc import Iterator

import httpx2
import pytest

from tests.api.rpc.kit import Client, client_of
from tests.api.rpc.rich_site import rich_site
from tests.api.server_kit import Served, serving, settings
from tests.api.site_kit import Site
from tests.shared_folders import shared_copy


@pytest.fixture(scope="module")
def rich(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server over a site that has something of everything, for tests that only ask."""
    site = Site(shared_copy("rich", rich_site, tmp_path_factory.mktemp("rich")))
    with serving(settings(site.locations, grpc=True)) as found:
        yield found


@pytest.fixture(scope="module")
def rest(rich: Served) -> Iterator[httpx2.Client]:
    """An HTTP client of that server."""
    with rich.client() as found:
        yield found


@pytest.fixture(scope="module")
def rpc(rich: Served) -> Iterator[Client]:
    """A gRPC client of that server."""
    with client_of(rich) as found:
        yield found
