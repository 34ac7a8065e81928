"""Registers brokers and elects controllers in ZooKeeper (KafkaZkClient of 3.9.1)."""

from typing import NamedTuple

from kcore.errors import ControllerMovedError, ZookeeperError
from kcore.metadata.zookeeper import znodes
from kcore.metadata.zookeeper.znode_operations import Create, Delete, SetData
from kcore.zookeeper.client import ZookeeperClient
from kcore.zookeeper.operations import BAD_VERSION, NO_NODE, NODE_EXISTS, Ephemeral, first_error, result_of

_TRIES = 10  # An attempt fails if another session creates or deletes the znode meanwhile.


class ControllerEpoch(NamedTuple):
    """The epoch of an elected controller."""

    epoch: int
    version: int  # The version of /controller_epoch, which fences the controller's writes.


async def register_broker(client: ZookeeperClient, broker_id: int, data: bytes) -> int:
    """Creates /brokers/ids/<id>, and returns its czxid, which is the broker epoch (KIP-380).

    A znode of an expired session of this client is replaced (KAFKA-7165); ZookeeperError if another session owns it.
    """
    path = znodes.broker_path(broker_id)
    for _ in range(_TRIES):
        results = await client.transaction([Ephemeral(path), SetData(path, data, 0)])
        if not results.errors.any():
            return int(results.zxids[0, 1])
        if results.errors[0] != NODE_EXISTS:
            outcome = result_of(int(results.errors[0]), path)
            raise ZookeeperError(f"{path}: {outcome.value}")
        if (stat := await client.stat(path)) is None:
            continue
        if stat.ephemeralOwner == client.session.id:  # This session created it, and the response was lost.
            return int(stat.czxid)
        if stat.ephemeralOwner not in client.session.past_ids:
            raise ZookeeperError(f"{path}: the broker id is registered by session {stat.ephemeralOwner:#x}")
        await client.write([Delete(path)])
    raise ZookeeperError(f"{path}: other sessions create and delete it all the time; is the broker id used twice?")


async def elect(client: ZookeeperClient, broker_id: int, timestamp_ms: int) -> ControllerEpoch:
    """Creates /controller and raises /controller_epoch at once; ControllerMovedError if another node is elected."""
    epoch, version = await _controller_epoch(client)
    results = await client.transaction(
        [
            Ephemeral(znodes.CONTROLLER, znodes.encode_controller(broker_id, timestamp_ms)),
            SetData(znodes.CONTROLLER_EPOCH, znodes.encode_controller_epoch(epoch + 1), version),
        ]
    )
    if not results.errors.any():
        return ControllerEpoch(epoch + 1, int(results.versions[1]))
    return await _lost_answer(client, broker_id, epoch + 1)


async def take_over(client: ZookeeperClient, broker_id: int, timestamp_ms: int) -> ControllerEpoch:
    """Replaces the present controller, which sees its znode deleted and resigns; otherwise like `elect`."""
    for _ in range(_TRIES):
        epoch, version = await _controller_epoch(client)
        there = await client.stat(znodes.CONTROLLER)
        results = await client.transaction(
            [
                *([Delete(znodes.CONTROLLER)] if there else []),
                Ephemeral(znodes.CONTROLLER, znodes.encode_controller(broker_id, timestamp_ms)),
                SetData(znodes.CONTROLLER_EPOCH, znodes.encode_controller_epoch(epoch + 1), version),
            ]
        )
        if not results.errors.any():
            return ControllerEpoch(epoch + 1, int(results.versions[-1]))
        if BAD_VERSION in results.errors:
            return await _lost_answer(client, broker_id, epoch + 1)
        if not {NO_NODE, NODE_EXISTS} & set(results.errors.tolist()):
            raise ZookeeperError(f"{znodes.CONTROLLER}: ZooKeeper answers {first_error(results.errors)[1]}")
    raise ZookeeperError(f"{znodes.CONTROLLER}: other nodes create and delete it all the time")


async def _controller_epoch(client: ZookeeperClient) -> tuple[int, int]:
    """The epoch and the version of /controller_epoch, which is created with epoch 0 if it is missing."""
    while True:
        [node] = await client.read_nodes([znodes.CONTROLLER_EPOCH])
        if node is not None:
            return znodes.decode_controller_epoch(node.data), node.version
        await client.write([Create(znodes.CONTROLLER_EPOCH, znodes.encode_controller_epoch(0))])


async def _lost_answer(client: ZookeeperClient, broker_id: int, epoch: int) -> ControllerEpoch:
    """The epoch, if this node's write succeeded and only the response was lost; otherwise ControllerMovedError."""
    controller, written = await client.read_nodes([znodes.CONTROLLER, znodes.CONTROLLER_EPOCH])
    if controller is None or written is None:
        raise ControllerMovedError("another controller was elected, and has resigned already")
    now = znodes.decode_controller(controller.data).broker_id
    if now != broker_id or znodes.decode_controller_epoch(written.data) != epoch:
        raise ControllerMovedError(f"controller {now} is active")
    return ControllerEpoch(epoch, written.version)
