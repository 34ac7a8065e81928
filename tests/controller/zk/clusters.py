"""Small clusters, written out, and control requests as JSON."""

from typing import Any

import kcore
from kcore.controller.zk.decision import Decision
from kcore.controller.zk.requests.control_request import ControlRequest
from kcore.controller.zk.zk_controller import ZkController
from kcore.metadata.table.broker_table import BrokerTable, Endpoint
from kcore.metadata.table.partition_table import PartitionTable
from kcore.metadata.table.topic_table import TopicTable
from kcore.schema.structure import Message
from kcore.types import Uuid
from kcore.wire.columns import Columns

CONTROLLER_EPOCH = 7
EPOCHS = {1: 101, 2: 102, 3: 103, 4: 104}


def endpoint(broker: int) -> Endpoint:
    return Endpoint(9000 + broker, f"host-{broker}", "PLAINTEXT", 0)


def cluster(
    *partitions: tuple[str, int, list[int], list[int], int], live: tuple[int, ...] = (1, 2, 3, 4)
) -> ZkController:
    """A controller of brokers 1 to 4 and of (topic, partition, replicas, ISR, leader); epochs 5, state versions 20."""
    names = list(dict.fromkeys(topic for topic, *_ in partitions))
    count, width = len(partitions), max(len(replicas) for _, _, replicas, _, _ in partitions)
    brokers = BrokerTable.from_arrays(
        list(EPOCHS),
        live=[broker in live for broker in EPOCHS],
        epochs=list(EPOCHS.values()),
        endpoints=[[endpoint(broker)] for broker in EPOCHS],
    )
    table = PartitionTable.from_arrays(
        [replicas + [-1] * (width - len(replicas)) for _, _, replicas, _, _ in partitions],
        isr=[isr + [-1] * (width - len(isr)) for _, _, _, isr, _ in partitions],
        leaders=[leader for *_, leader in partitions],
        leader_epochs=[5] * count,
        partition_epochs=[20] * count,
        controller_epochs=[6] * count,
        topics=TopicTable(names, [Uuid(bytes([65 + k] * 16)) for k in range(len(names))]),
        topic_rows=[names.index(topic) for topic, *_ in partitions],
        partition_indexes=[partition for _, partition, *_ in partitions],
        brokers=brokers,
    )
    return ZkController(9, CONTROLLER_EPOCH, table)


def led(controller: ZkController) -> dict[str, tuple[int, tuple[int, ...], int]]:
    """Leader, ISR and leader epoch of every partition, by its name."""
    states = [controller.table.state(row) for row in range(len(controller.table))]
    return {f"{each.topic}-{each.partition}": (each.leader, each.isr, each.leader_epoch) for each in states}


def snapshot(controller: ZkController) -> Any:
    """All that a handler must leave alone."""
    brokers = controller.table.brokers
    return (
        [controller.table.state(row) for row in range(len(controller.table))],
        *(column.tolist() for column in (brokers.ids, brokers.live, brokers.shutting_down, brokers.epochs)),
        list(brokers.endpoints),
    )


def replayed(controller: ZkController, decision: Decision) -> list[tuple[str, list[int], dict[str, Any]]]:
    """Replays, and returns (kind, receivers, JSON) of every request."""
    controller.replay(decision)
    return [(kind_of(each), each.broker_ids.tolist(), as_json(each)) for each in controller.requests(decision)]


def kind_of(request: ControlRequest) -> str:
    return request.message.__name__.removesuffix("Request")


def as_json(request: ControlRequest) -> dict[str, Any]:
    """The request as the first receiver decodes it."""
    body = request.fanout().bytes_for(int(request.broker_epochs[0]))
    return kcore.to_json(kcore.decode(request.message, request.version, body), request.version)


def columns_of(response: Message, version: int = 7) -> Columns:
    """A response as the edge hands it in."""
    return kcore.decode_columns(type(response), version, kcore.encode(response, version))


def states_of(request: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The partition states of a request by "topic-partition"."""
    return {
        f"{topic['topicName']}-{state['partitionIndex']}": state
        for topic in request["topicStates"]
        for state in topic["partitionStates"]
    }
