"""What a broker is registered by, and what makes a controller active (KafkaZkClient of 3.9.1)."""

from typing import NamedTuple

from kcore.errors import ControllerMovedError, ZookeeperError
from kcore.metadata.zookeeper import znodes
from kcore.metadata.zookeeper.znode_operations import Create, Delete, SetData
from kcore.zookeeper.client import ZookeeperClient
from kcore.zookeeper.operations import BAD_VERSION, NO_NODE, NODE_EXISTS, Ephemeral, first_error, result_of

_TRIES = 10  # Each is for another session that created and deleted a znode meanwhile.


class ControllerEpoch(NamedTuple):
    """What makes the controller the controller."""

    epoch: int
    version: int  # of /controller_epoch: the fence of its writes is (CONTROLLER_EPOCH, version)


async def register_broker(client: ZookeeperClient, broker_id: int, data: bytes) -> int:
    """Makes /brokers/ids/<id>; its czxid, the broker epoch, comes back from the same transaction (KIP-380).

    A znode left by a session of ours that expired is replaced (KAFKA-7165); ZookeeperError if it belongs to another
    session.
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
        if stat.ephemeralOwner == client.session.id:  # Ours, by a transaction whose answer was lost.
            return int(stat.czxid)
        if stat.ephemeralOwner not in client.session.past_ids:
            raise ZookeeperError(f"{path}: {NODE_TAKEN} {stat.ephemeralOwner:#x}")
        await client.write([Delete(path)])
    raise ZookeeperError(f"{path}: comes and goes")


NODE_TAKEN = "the broker id is registered by session"


async def elect(client: ZookeeperClient, broker_id: int, timestamp_ms: int) -> ControllerEpoch:
    """Creates /controller and raises /controller_epoch, in one step; ControllerMovedError if there is another one."""
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
    """As `elect`, in place of the current controller, which sees its znode deleted and resigns."""
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
    raise ZookeeperError(f"{znodes.CONTROLLER}: comes and goes")


async def _controller_epoch(client: ZookeeperClient) -> tuple[int, int]:
    """The epoch and the znode's version; it is made with 0 if it is not there."""
    while True:
        [node] = await client.read_nodes([znodes.CONTROLLER_EPOCH])
        if node is not None:
            return znodes.decode_controller_epoch(node.data), node.version
        await client.write([Create(znodes.CONTROLLER_EPOCH, znodes.encode_controller_epoch(0))])


async def _lost_answer(client: ZookeeperClient, broker_id: int, epoch: int) -> ControllerEpoch:
    """Ours after all, if the znodes are as we meant to write them; else ControllerMovedError."""
    controller, written = await client.read_nodes([znodes.CONTROLLER, znodes.CONTROLLER_EPOCH])
    if controller is None or written is None:
        raise ControllerMovedError("the controller that was elected is gone already")
    now = znodes.decode_controller(controller.data).broker_id
    if now != broker_id or znodes.decode_controller_epoch(written.data) != epoch:
        raise ControllerMovedError(f"controller {now} is active")
    return ControllerEpoch(epoch, written.version)
