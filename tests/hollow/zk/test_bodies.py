"""Control requests are read once for all brokers that get the same."""

import numpy as np
import pytest

import kcore
from kcore.controller.zk.requests.control_request import ControlRequest
from kcore.measure.hollow.zk import bodies
from kcore.measure.hollow.zk.bodies import Bodies
from kcore.schema import UpdateMetadataRequest
from kcore.schema.headers import RequestHeader
from kcore.wire.codec import encode


@pytest.fixture(scope="module")
def requests() -> list[ControlRequest]:
    """The requests after a broker failure: LeaderAndIsr for some brokers, UpdateMetadata for all."""
    table = kcore.generate(partitions=60, brokers=5, replication_factor=3, topics=7, seed=1)
    controller = kcore.zk.ZkController(0, 1, table)
    decision = controller.on_broker_failed(kcore.zk.BrokerFailed((3,)))
    controller.replay(decision)
    return controller.requests(decision)


def frame(request: ControlRequest, epoch: int, correlation_id: int) -> bytes:
    fanout = request.fanout()
    key, version = fanout.message.api_key, fanout.version
    header = RequestHeader(
        request_api_key=key, request_api_version=version, correlation_id=correlation_id, client_id="0"
    )
    return encode(header, fanout.message.header_version(version)) + b"".join(map(bytes, fanout.buffers(epoch)))


def test_each_broker_has_its_own_head_and_all_have_the_columns(requests: list[ControlRequest]) -> None:
    for request in requests:
        read = Bodies()
        for nth, epoch in enumerate((7, 8, 9)):
            received = read.read(frame(request, epoch, nth))
            assert (received.correlation_id, received.head.broker_epoch, received.version) == (
                nth,
                epoch,
                request.version,
            )
            assert (received.head.message, received.head.controller_epoch) == (request.message, 1)
            alone = kcore.decode(request.message, request.version, request.fanout().body)
            topics = alone.topic_states
            assert received.partitions == sum(len(topic.partition_states) for topic in topics)
            assert received.columns.topic_states.topic_name.tolist() == [topic.topic_name for topic in topics]


def test_an_update_metadata_of_many_brokers_is_decoded_once(
    requests: list[ControlRequest], monkeypatch: pytest.MonkeyPatch
) -> None:
    decoded = []
    real = bodies.decode_columns
    monkeypatch.setattr(bodies, "decode_columns", lambda *given: decoded.append(given[0]) or real(*given))
    [update] = [request for request in requests if request.message is UpdateMetadataRequest]
    read = Bodies()
    first, second = (read.read(frame(update, epoch, 0)) for epoch in (7, 8))
    assert first.columns is second.columns and decoded == [UpdateMetadataRequest]
    other = next(request for request in requests if request.message is not UpdateMetadataRequest)
    assert np.array_equal(*(read.read(frame(other, epoch, 0)).columns.topic_states.topic_id for epoch in (7, 8)))
    assert len(decoded) == 3, "the others are each broker's own"


def test_few_bodies_are_kept(requests: list[ControlRequest]) -> None:
    [update] = [request for request in requests if request.message is UpdateMetadataRequest]
    read = Bodies()
    whole = frame(update, 7, 0)
    for nth in range(20):
        read.read(whole.replace(b"topic-00001", b"topic-%05d" % (100 + nth)))
    assert len(read._decoded) == bodies._KEPT
