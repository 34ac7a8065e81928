"""Allocates blocks of producer ids, each to one broker (KIP-730; ZkProducerIdManager of 3.9.1)."""

from typing import Final

from kcore.constants import INT64_MAX, PRODUCER_ID_BLOCK_SIZE
from kcore.controller.zk.effects import Steps
from kcore.controller.zk.events import RequestEvent
from kcore.controller.zk.zk_context import ControllerContext
from kcore.errors import TableError
from kcore.metadata.zookeeper import znodes
from kcore.metadata.zookeeper.znode_operations import Create, OperationResult, SetData
from kcore.metadata.zookeeper.znodes import ProducerIdsBlock
from kcore.node.zk.znode_steps import read_node, write_nodes
from kcore.protocol_errors import Errors
from kcore.schema import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from kcore.schema.structure import Message

MAX_ATTEMPTS: Final = 10  # Attempts to write a block, because brokers from before 2.8 write blocks, too.


def on_allocate_producer_ids(
    context: ControllerContext, event: RequestEvent[AllocateProducerIdsRequest]
) -> Steps[Message]:
    """Responds with the next block, after ZooKeeper has stored it."""
    brokers, request = context.table.brokers, event.request
    if request.broker_id not in brokers or not brokers.live[brokers.row(request.broker_id)]:
        return event.refused(Errors.BROKER_ID_NOT_REGISTERED)
    if brokers.epochs[brokers.row(request.broker_id)] != request.broker_epoch:
        return event.refused(Errors.STALE_BROKER_EPOCH)
    first = yield from _next_block(request.broker_id)
    if first is None:
        response = event.refused(Errors.UNKNOWN_SERVER_ERROR)
    else:
        response = AllocateProducerIdsResponse(producer_id_start=first, producer_id_len=PRODUCER_ID_BLOCK_SIZE)
    return response


def _next_block(broker_id: int) -> Steps[int | None]:
    """The block's first id; None if no ids are left, the znode is unreadable, or all attempts to write it failed."""
    path = znodes.LATEST_PRODUCER_ID_BLOCK
    for _ in range(MAX_ATTEMPTS):
        node = yield from read_node(path)
        try:
            last = None if node is None else znodes.decode_producer_id_block(node.data)
        except TableError:
            return None  # A guess could allocate an id twice.
        first = 0 if last is None else last.last_producer_id + 1
        if first > INT64_MAX - PRODUCER_ID_BLOCK_SIZE:
            return None
        data = znodes.encode_producer_id_block(ProducerIdsBlock(broker_id, first, first + PRODUCER_ID_BLOCK_SIZE - 1))
        [outcome] = yield from write_nodes([Create(path, data) if node is None else SetData(path, data, node.version)])
        if outcome is OperationResult.DONE:
            return first
    return None
