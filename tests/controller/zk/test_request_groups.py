"""The requests of one event are encoded together, and brokers' endpoints are looked up once; both change no byte."""

import gc
import weakref
from typing import Any

import numpy as np
import pytest

import kcore
from kcore.controller.zk.events import BrokerFailed, BrokerStarted
from kcore.controller.zk.requests import control_request
from kcore.controller.zk.requests.batch import RequestBatch
from kcore.controller.zk.requests.control_request import ControlRequest
from kcore.controller.zk.zk_controller import ZkController
from kcore.measure.workloads.generate import generate
from kcore.metadata.table.broker_registration import LiveBroker
from kcore.metadata.table.broker_table import Endpoint
from kcore.schema import LeaderAndIsrRequest, UpdateMetadataRequest
from kcore.wire.column_codec import encode_columns

BROKERS = 40


@pytest.fixture
def controller() -> ZkController:
    table = generate(2_000, BROKERS, 3, 50, 1, 3)
    for broker in table.brokers.ids.tolist():
        rack = f"rack {broker % 3}" if broker % 5 else None
        places = [
            Endpoint(9000 + broker, f"host-{broker}", name, 0) for name in ("PLAINTEXT", "OTHER")[: 1 + broker % 2]
        ]
        table.brokers.register(broker, 100 + broker, rack=rack, endpoints=places)
    return ZkController(9, 7, table)


def lost(controller: ZkController, broker: int = 7) -> list[ControlRequest]:
    decision = controller.on_broker_failed(BrokerFailed([broker]))
    controller.replay(decision)
    return controller.requests(decision)


def orders(requests: list[ControlRequest]) -> list[ControlRequest]:
    return [each for each in requests if each.message is LeaderAndIsrRequest]


def encodings(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many requests each encoding of several was of."""
    counts: list[int] = []
    encode_rows = control_request.encode_rows

    def counted(message: Any, version: int, rows: Any, count: int) -> Any:
        counts.append(count)
        return encode_rows(message, version, rows, count)

    monkeypatch.setattr(control_request, "encode_rows", counted)
    return counts


@pytest.mark.parametrize("together", [1, 50, 10_000])
def test_bodies_are_those_of_the_columns(
    controller: ZkController, monkeypatch: pytest.MonkeyPatch, together: int
) -> None:
    monkeypatch.setattr(control_request, "ENCODED_TOGETHER", together)
    counts = encodings(monkeypatch)
    requests = orders(lost(controller))
    assert len(requests) > 20 and sum(each.partitions for each in requests) > 200
    for request in [*requests[::2], *requests[::-1]]:
        assert request.fanout().body == encode_columns(request.columns, request.version)
        assert request.partitions == len(request.columns.topic_states.partition_states)
    assert sum(counts) == len(requests), "each in one chunk, whoever was asked for first"
    assert (len(counts) == 1) == (together == 10_000)
    if together == 50:
        partitions = [request.partitions for request in requests]
        assert max(counts) * min(partitions) <= 50 + max(partitions), "a chunk is bounded by its partitions"


def test_a_request_that_waits_keeps_no_bytes_of_others(controller: ZkController) -> None:
    """A broker that is slow must not hold what all others were sent."""
    requests = orders(lost(controller))
    group = requests[0]._group
    assert group is not None
    slow, *others = requests
    assert all(each.fanout().body for each in others)
    assert list(group._bodies) == [0]
    assert slow.fanout().body == slow.fanout().body, "whoever asks again is given the same"
    assert not group._bodies


def test_nothing_needs_the_collector_to_be_freed(controller: ZkController) -> None:
    requests = orders(lost(controller))
    requests[0].fanout()
    group = requests[0]._group
    assert group is not None
    watched = weakref.ref(requests[0])
    gc.disable()
    try:
        del requests, group
        assert watched() is None
    finally:
        gc.enable()


def listed(requests: list[ControlRequest]) -> dict[int, Any]:
    """The live brokers of the last UpdateMetadata by id, as a broker reads them."""
    request = [each for each in requests if each.message is UpdateMetadataRequest][-1]
    message = kcore.decode(UpdateMetadataRequest, request.version, request.fanout().body)
    return {
        each.id: (each.rack, [(place.host, place.port, place.listener) for place in each.endpoints])
        for each in message.live_brokers
    }


def in_table(controller: ZkController) -> dict[int, Any]:
    brokers = controller.table.brokers
    return {
        int(brokers.ids[row]): (
            brokers.racks[row],
            [(place.host, place.port, place.listener) for place in brokers.endpoints[row]],
        )
        for row in np.flatnonzero(brokers.live).tolist()
    }


def test_endpoints_and_racks_are_those_of_the_table_whatever_changes(controller: ZkController) -> None:
    brokers = controller.table.brokers
    assert listed(lost(controller, 7)) == in_table(controller)
    assert listed(lost(controller, 8)) == in_table(controller)
    brokers.set_endpoints(3, [Endpoint(1, "moved", "PLAINTEXT", 0), Endpoint(2, "moved", "OTHER", 1)])
    assert listed(lost(controller, 9)) == in_table(controller)
    for broker, rack in ((7, "another rack"), (BROKERS + 5, None)):
        decision = controller.on_broker_started(
            BrokerStarted(broker, 500, (Endpoint(3, "back", "PLAINTEXT", 0),), rack)
        )
        controller.replay(decision)
        assert listed(controller.requests(decision)) == in_table(controller)
    leaders = {
        (each.broker_id, each.host_name, each.port)
        for request in orders(lost(controller, 10))
        for each in kcore.decode(LeaderAndIsrRequest, request.version, request.fanout().body).live_leaders
    }
    assert {(3, "moved", 1)} <= leaders
    assert all((host, port) == in_table(controller)[broker][1][0][:2] for broker, host, port in leaders)


def test_a_controller_that_is_no_broker_is_listed_until_its_id_is_a_brokers(controller: ZkController) -> None:
    places = controller.places
    here = LiveBroker(1000, (Endpoint(9, "here", "PLAINTEXT", 0),), "a rack")

    def shown(listed_too: LiveBroker | None) -> dict[int, Any]:
        batch = RequestBatch(9, 7, controller.table, controller.versions, listed=listed_too, places=places)
        batch.add_update_metadata([0])
        return listed(batch.requests())

    us = {1000: ("a rack", [("here", 9, "PLAINTEXT")])}
    for _ in range(2):
        assert shown(here) == in_table(controller) | us
        assert shown(None) == in_table(controller)
    controller.table.brokers.register(1000, 5, endpoints=[Endpoint(4, "a broker", "PLAINTEXT", 0)])
    assert shown(here) == in_table(controller)
