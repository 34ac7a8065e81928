"""A hollow broker of ZooKeeper mode: over a real socket, with the requests of kcore's own controller."""

import asyncio
from collections.abc import Iterator

import pytest

import kcore
from kcore.controller.zk.requests.control_request import ControlRequest
from kcore.measure.hollow.zk.receivers import Receivers
from kcore.net.connect import connect
from kcore.net.connection import Connection
from kcore.net.versions import response_of
from kcore.protocol_errors import Errors
from kcore.schema import LeaderAndIsrRequest, StopReplicaRequest, UpdateMetadataRequest
from kcore.schema.structure import Message
from kcore.wire.codec import decode_from

EPOCH = 7


@pytest.fixture(scope="module")
def requests() -> list[ControlRequest]:
    """The requests of a controlled shutdown: all three kinds."""
    table = kcore.generate(partitions=60, brokers=5, replication_factor=3, topics=7, seed=1)
    controller = kcore.zk.ZkController(0, 1, table)
    decision = controller.on_controlled_shutdown(kcore.zk.ControlledShutdown(3, -1))
    controller.replay(decision)
    return controller.requests(decision)


async def asked(connection: Connection, request: ControlRequest, epoch: int) -> Message:
    fanout = request.fanout()
    body = await connection.send_bytes(fanout.message.api_key, fanout.version, *fanout.buffers(epoch))
    return decode_from(response_of(fanout.message), fanout.version, body)[0]


def errors_of(answer: Message) -> Iterator[tuple[str, int, int]]:
    """Topic (its id, of LeaderAndIsr), partition, error."""
    for topic in getattr(answer, "topics", []):
        yield from ((str(topic.topic_id), each.partition_index, each.error_code) for each in topic.partition_errors)
    if not getattr(answer, "topics", []):
        for each in getattr(answer, "partition_errors", []):
            yield each.topic_name, each.partition_index, each.error_code


def partitions_of(request: ControlRequest) -> Iterator[tuple[str, int]]:
    """The same partitions, by the request."""
    message = kcore.decode(request.message, request.version, request.fanout().body)
    for topic in message.topic_states:
        name = str(topic.topic_id) if request.message is LeaderAndIsrRequest else topic.topic_name
        yield from ((name, each.partition_index) for each in topic.partition_states)


def test_every_partition_is_acknowledged(requests: list[ControlRequest]) -> None:
    async def run() -> None:
        receivers = Receivers([3])
        broker = receivers.open()[3]
        broker.registered(EPOCH)
        async with await connect("127.0.0.1", broker.port, client_id="test", ask_versions=False) as connection:
            for request in requests:
                answer = await asked(connection, request, EPOCH)
                assert answer.error_code == Errors.NONE
                if request.message is not UpdateMetadataRequest:
                    assert list(errors_of(answer)) == [(*key, Errors.NONE) for key in partitions_of(request)]
        arrivals = [arrival for _, arrival in receivers.arrivals()]
        await receivers.close()
        kinds = {each.message for each in arrivals}
        assert kinds == {LeaderAndIsrRequest, StopReplicaRequest, UpdateMetadataRequest}
        assert [each.partitions for each in arrivals] == [len(list(partitions_of(each))) for each in requests]

    asyncio.run(run())


def test_what_is_meant_for_an_older_incarnation_is_refused(requests: list[ControlRequest]) -> None:
    async def run() -> None:
        receivers = Receivers([3])
        broker = receivers.open()[3]
        broker.registered(EPOCH)
        async with await connect("127.0.0.1", broker.port, client_id="test", ask_versions=False) as connection:
            for request in requests:
                answer = await asked(connection, request, EPOCH - 1)
                assert answer.error_code == Errors.STALE_BROKER_EPOCH
                assert {error for _, _, error in errors_of(answer)} <= {Errors.STALE_BROKER_EPOCH}
            assert not receivers.arrivals()
            assert (await asked(connection, requests[0], -1)).error_code == Errors.NONE
        await receivers.close()

    asyncio.run(run())
