"""Health and reflection, asked as balancers and `grpcurl` ask: with nothing but the address."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import grpc
import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse
from grpc_reflection.v1alpha.reflection_pb2 import (
    ServerReflectionRequest,
    ServerReflectionResponse,
)

from api.core.descriptors import CORE, TRADING_DATA
from api.core.server_settings import Access
from tests.api.rpc.kit import SECONDS
from tests.api.server_kit import Served, serving, settings
from tests.api.site_kit import Site
from tests.waiting import wait_until

_SERVING = HealthCheckResponse.ServingStatus.SERVING
_NOT_SERVING = HealthCheckResponse.ServingStatus.NOT_SERVING
_REFLECTION = "grpc.reflection.v1alpha.ServerReflection"


@pytest.fixture
def served(built_site: Site) -> Iterator[Served]:
    with serving(settings(built_site.locations, grpc=True)) as found:
        yield found


@pytest.fixture
def channel(served: Served) -> Iterator[grpc.Channel]:
    with grpc.insecure_channel(f"127.0.0.1:{served.grpc_port}") as found:
        yield found


def _check(channel: grpc.Channel, name: str = "") -> Any:
    call = channel.unary_unary(
        "/grpc.health.v1.Health/Check",
        request_serializer=HealthCheckRequest.SerializeToString,
        response_deserializer=HealthCheckResponse.FromString,
    )
    return call(HealthCheckRequest(service=name), timeout=SECONDS).status


@pytest.mark.parametrize("name", ["", TRADING_DATA, CORE])
def test_what_is_served_is_healthy(channel: grpc.Channel, name: str) -> None:
    assert _check(channel, name) == _SERVING


def test_what_is_not_served_has_no_health(channel: grpc.Channel) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        _check(channel, "another.Service")
    assert caught.value.code() is grpc.StatusCode.NOT_FOUND


def test_health_is_told_without_a_token_and_when_data_comes(site: Site) -> None:
    empty = Site(site.root / "empty")
    access = Access(rate=0.0, tokens=("secret",))
    with (
        serving(settings(empty.locations, access=access, grpc=True)) as served,
        grpc.insecure_channel(f"127.0.0.1:{served.grpc_port}") as channel,
    ):
        assert _check(channel) == _NOT_SERVING
        empty.load(site.source_folder)
        wait_until(lambda: _check(channel) == _SERVING)


def _reflect(channel: grpc.Channel, **asked: str) -> Any:
    call = channel.stream_stream(
        f"/{_REFLECTION}/ServerReflectionInfo",
        request_serializer=ServerReflectionRequest.SerializeToString,
        response_deserializer=ServerReflectionResponse.FromString,
    )
    (answer,) = call(iter([ServerReflectionRequest(**asked)]), timeout=SECONDS)
    return answer


def test_reflection_needs_a_token_where_there_are_some(built_site: Site) -> None:
    access = Access(rate=0.0, tokens=("secret",))
    with (
        serving(settings(built_site.locations, access=access, grpc=True)) as served,
        grpc.insecure_channel(f"127.0.0.1:{served.grpc_port}") as channel,
        pytest.raises(grpc.RpcError) as caught,
    ):
        _reflect(channel, list_services="")
    assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED


def test_the_services_are_listed(channel: grpc.Channel) -> None:
    answer = _reflect(channel, list_services="")
    assert {found.name for found in answer.list_services_response.service} == {
        TRADING_DATA,
        CORE,
        "grpc.health.v1.Health",
        _REFLECTION,
    }


def test_every_listed_service_is_described(channel: grpc.Channel) -> None:
    listed = _reflect(channel, list_services="").list_services_response.service
    for name in (found.name for found in listed):
        assert _pool(channel, name).FindServiceByName(name).methods


def test_a_method_is_called_by_what_reflection_says_alone(channel: grpc.Channel) -> None:
    pool = _pool(channel, TRADING_DATA)
    method = pool.FindServiceByName(TRADING_DATA).methods_by_name["ListWithdrawals"]
    asked, answered = GetMessageClass(method.input_type), GetMessageClass(method.output_type)
    call = channel.unary_unary(
        f"/{TRADING_DATA}/{method.name}",
        request_serializer=asked.SerializeToString,
        response_deserializer=answered.FromString,
    )
    answer: Any = call(asked(pagination={"first": 1}), timeout=SECONDS)
    assert len(answer.withdrawals.edges) == 1
    assert answer.withdrawals.page_info.has_next_page


def test_what_is_unknown_is_not_found(channel: grpc.Channel) -> None:
    for asked in ("file_by_filename", "file_containing_symbol"):
        answer = _reflect(channel, **{asked: "nothing.of.this"})
        assert answer.error_response.error_code == 5


def _pool(channel: grpc.Channel, symbol: str) -> DescriptorPool:
    """The files that describe a symbol, those first that others import."""
    answer = _reflect(channel, file_containing_symbol=symbol)
    sent = answer.file_descriptor_response.file_descriptor_proto
    files = {file.name: file for file in map(FileDescriptorProto.FromString, sent)}
    pool = DescriptorPool()

    def add(name: str) -> None:
        for imported in files[name].dependency:
            add(imported)
        pool.AddSerializedFile(files[name].SerializeToString())

    for name in files:
        add(name)
    return pool
