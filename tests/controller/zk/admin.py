"""Clusters of the recorded story and small ones over the tree in memory; requests asked of them, and their answers."""

import re
from collections.abc import Sequence
from itertools import count
from typing import Any

import kcore
import story
from controller.zk.clusters import columns_of
from controller.zk.tree import Cluster
from kcore import schema
from kcore.controller.zk import events
from kcore.metadata.zookeeper import znodes
from kcore.metadata.zookeeper.znode_operations import Node
from kcore.protocol_errors import Errors
from kcore.schema.alter_partition import (
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
    BrokerState,
)
from kcore.schema.stop_replica import StopReplicaPartitionError
from kcore.schema.structure import Message
from kcore.server.zk_controller.broker_channel import event_of_answer
from kcore.types import Uuid

_REQUEST_IDS = count(1)
SUBJECTS = ("/brokers/topics", "/config/topics", "/admin", "/isr_change_notification")


def small(*partitions: Sequence[int], brokers: Sequence[int] = (1, 2, 3, 4), **config: Any) -> Cluster:
    """An elected controller of live brokers and the topic "t", whose partitions have these replicas."""
    cluster = Cluster(**config)
    for broker in brokers:
        cluster.register(broker)
    if partitions:
        cluster.write_topic("t", *partitions)
    cluster.elect()
    cluster.requests()
    return cluster


def recorded(step: int) -> Cluster:
    """The recorded cluster after a step, under its controller: broker 1, controller epoch 1."""
    cluster = Cluster(controller_id=1)
    for path, node in dumped(step).items():
        put(cluster, path, node)
    cluster.run(events.Elected(1, cluster.tree.nodes[znodes.CONTROLLER_EPOCH].version))
    cluster.requests()
    return cluster


def dumped(step: int) -> dict[str, Node]:
    """The znodes after a recorded step."""
    lines = re.findall(r"(?m)^(/.+)\tversion=(\d+) cversion=\S+ czxid=(\d+) .*?\t(.*)$", story.dump(step))
    return {
        path: Node(b"" if data == "<null>" else data.encode(), int(version), int(czxid))
        for path, version, czxid, data in lines
    }


def put(cluster: Cluster, path: str, node: Node) -> None:
    """A znode as it was recorded."""
    cluster.tree.create(path, parents=True)
    cluster.tree.nodes[path] = node


def subjects(cluster: Cluster) -> dict[str, tuple[int, bytes]]:
    """The znodes of topics, of their settings and of administrators' requests: version and data by path."""
    return {path: (node.version, node.data) for path, node in cluster.tree.nodes.items() if path.startswith(SUBJECTS)}


def recorded_subjects(step: int) -> dict[str, tuple[int, bytes]]:
    """The same after a recorded step."""
    return {path: (node.version, node.data) for path, node in dumped(step).items() if path.startswith(SUBJECTS)}


def recorded_alter_partitions(step: int) -> list[tuple[events.RequestEvent[Any], Any]]:
    """The AlterPartitions that Kafka's controller was sent before that step, with its answers, as JSON."""
    found = []
    for each in story.requests_before(step, "ALTER_PARTITION"):
        version = each["header"]["requestApiVersion"]
        request = kcore.from_json("AlterPartitionRequest", version, each["request"])
        found.append((events.RequestEvent(next(_REQUEST_IDS), request, version), each["response"]))
    return found


def ask(
    cluster: Cluster,
    request: Message,
    version: int | None = None,
    requester: events.Requester = events.NO_REQUESTER,
    *,
    now_ms: int = 0,
) -> Any:
    """The response, None if there is none yet; without `version` the request has the newest."""
    request_id = next(_REQUEST_IDS)
    version = type(request).versions.highest if version is None else version
    cluster.run(events.RequestEvent(request_id, request, version, requester), now_ms)
    return cluster.answers.get(request_id)


def controlled_shutdown(request_id: int, broker: int, epoch: int) -> events.RequestEvent[Message]:
    """A broker's ControlledShutdown."""
    request = schema.ControlledShutdownRequest(broker_id=broker, broker_epoch=epoch)
    return events.RequestEvent(request_id, request, 3)


def alter_partition(
    cluster: Cluster,
    broker: int,
    isr: Sequence[int | tuple[int, int]],
    *,
    partition: int = 0,
    topic: str = "t",
    leader_epoch: int | None = None,
    partition_epoch: int | None = None,
    recovery: int = 0,
    version: int = 3,
    broker_epoch: int | None = None,
    topic_id: Uuid | None = None,
) -> Any:
    """A leader asks for an ISR of one partition; epochs left out are the controller's. The partition's answer.

    Members of the ISR are ids, or ids with the broker epoch.
    """
    table = cluster.active.table
    state = table.state(table.row_of(topic, partition)) if topic in table.topics else None
    members = [
        BrokerState(broker_id=each) if isinstance(each, int) else BrokerState(broker_id=each[0], broker_epoch=each[1])
        for each in isr
    ]
    wanted = AlterPartitionRequestPartitionData(
        partition_index=partition,
        leader_epoch=state.leader_epoch if leader_epoch is None and state else leader_epoch or 0,
        partition_epoch=state.partition_epoch if partition_epoch is None and state else partition_epoch or 0,
        leader_recovery_state=recovery,
        new_isr=[each.broker_id for each in members],
        new_isr_with_epochs=members,
    )
    known_id = table.topics.ids[table.topics.row(topic)] if state else Uuid()
    request = schema.AlterPartitionRequest(
        broker_id=broker,
        broker_epoch=epoch_of(cluster, broker) if broker_epoch is None else broker_epoch,
        topics=[
            AlterPartitionRequestTopicData(
                topic_name=topic, topic_id=known_id if topic_id is None else topic_id, partitions=[wanted]
            )
        ],
    )
    response = ask(cluster, request, version)
    assert kcore.encode(response, version) is not None
    if response.error_code:
        return Errors(response.error_code)
    return response.topics[0].partitions[0]


def epoch_of(cluster: Cluster, broker: int) -> int:
    return int(cluster.active.table.brokers.epochs[cluster.active.table.brokers.row(broker)])


def answer_stops(cluster: Cluster, *, brokers: Sequence[int] | None = None, error: Errors = Errors.NONE) -> None:
    """Brokers answer the StopReplicas that they were sent and have not answered yet, in order."""
    sent, cluster.sent = cluster.sent, []
    for request in sent:
        if request.message is not schema.StopReplicaRequest:
            continue
        for broker, epoch in zip(request.broker_ids.tolist(), request.broker_epochs.tolist(), strict=True):
            if brokers is None or broker in brokers:
                cluster.run(stop_answer(request, broker, epoch, error))


def stop_answer(
    request: Any, broker: int, epoch: int, error: Errors = Errors.NONE
) -> events.StopReplicaResponseReceived:
    """The response of a broker to a StopReplica."""
    body = kcore.decode(request.message, request.version, request.fanout().bytes_for(epoch))
    partitions = [(topic.topic_name, each) for topic in body.topic_states for each in topic.partition_states]
    errors = [
        StopReplicaPartitionError(topic_name=name, partition_index=each.partition_index, error_code=error)
        for name, each in partitions
    ]
    response = columns_of(schema.StopReplicaResponse(partition_errors=errors), 3)
    event = event_of_answer(request, broker, epoch, response)
    assert isinstance(event, events.StopReplicaResponseReceived)
    return event


def stop_event(
    broker: int, epoch: int, delete: bool, errors: Sequence[StopReplicaPartitionError]
) -> events.StopReplicaResponseReceived:
    """An answer of a broker to StopReplica."""
    response = schema.StopReplicaResponse(partition_errors=list(errors))
    return events.StopReplicaResponseReceived(broker, epoch, delete, columns_of(response, 3))


def as_json(message: Message, version: int) -> Any:
    """A message as Kafka's JSON converters have it."""
    return kcore.to_json(message, version)
