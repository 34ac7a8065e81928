"""Blocks of producer ids."""

from typing import Any

import pytest

from controller.zk import admin
from controller.zk.admin import epoch_of, small
from controller.zk.tree import Cluster
from kcore import schema
from kcore.controller.zk import events
from kcore.metadata.zookeeper import znodes
from kcore.metadata.zookeeper.znode_operations import WriteNodes
from kcore.metadata.zookeeper.znodes import ProducerIdsBlock
from kcore.protocol_errors import Errors

PATH = znodes.LATEST_PRODUCER_ID_BLOCK


def allocate(cluster: Cluster, broker: int, epoch: int | None = None) -> Any:
    """The first id of the block, or the error."""
    request = schema.AllocateProducerIdsRequest(
        broker_id=broker, broker_epoch=epoch_of(cluster, broker) if epoch is None else epoch
    )
    response = admin.ask(cluster, request)
    if response.error_code:
        return Errors(response.error_code)
    assert response.producer_id_len == 1000
    return response.producer_id_start


def test_each_block_is_given_once() -> None:
    cluster = small()
    assert [allocate(cluster, broker) for broker in (1, 2, 1)] == [0, 1000, 2000]
    assert cluster.tree.nodes[PATH].data == b'{"version":1,"broker":1,"block_start":"2000","block_end":"2999"}'
    cluster.run(events.SessionLost())
    cluster.elect()
    assert allocate(cluster, 2) == 3000


def test_a_broker_from_before_2_8_that_takes_a_block_itself_is_not_given_it_again() -> None:
    cluster = small()

    def before(effect: object) -> None:
        if isinstance(effect, WriteNodes):
            cluster.before = lambda _: None
            cluster.tree.set_data(PATH, znodes.encode_producer_id_block(ProducerIdsBlock(2, 0, 999)))

    cluster.before = before
    assert allocate(cluster, 1) == 1000


def test_somebody_who_is_faster_every_time() -> None:
    cluster = small()
    taken = iter(range(100))

    def before(effect: object) -> None:
        if isinstance(effect, WriteNodes):
            first = next(taken) * 1000
            cluster.tree.set_data(PATH, znodes.encode_producer_id_block(ProducerIdsBlock(2, first, first + 999)))

    cluster.before = before
    assert allocate(cluster, 1) is Errors.UNKNOWN_SERVER_ERROR


def test_a_znode_that_is_gone_is_made() -> None:
    cluster = small()
    cluster.tree.delete(PATH)
    assert allocate(cluster, 1) == 0


@pytest.mark.parametrize(
    "data", [b"no JSON", b'{"version":1,"broker":1,"block_start":"0","block_end":"9223372036854775000"}']
)
def test_no_block_is_guessed(data: bytes) -> None:
    cluster = small()
    cluster.tree.set_data(PATH, data)
    assert allocate(cluster, 1) is Errors.UNKNOWN_SERVER_ERROR
    assert cluster.tree.nodes[PATH].data == data


def test_brokers_that_are_not_registered_as_they_say() -> None:
    cluster = small()
    assert allocate(cluster, 99, 1) is Errors.BROKER_ID_NOT_REGISTERED
    assert allocate(cluster, 1, epoch_of(cluster, 1) - 1) is Errors.STALE_BROKER_EPOCH
    cluster.unregister(1)
    cluster.run()
    assert allocate(cluster, 1, 1) is Errors.BROKER_ID_NOT_REGISTERED
    assert cluster.tree.nodes[PATH].data == b""
