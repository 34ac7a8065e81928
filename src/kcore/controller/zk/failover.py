"""A newly elected controller reads the cluster and finishes the work of the previous controller.

The order matters: watches are set before the watched data is read, and brokers are sent the list of live brokers
before a LeaderAndIsr names leaders (KAFKA-4443). Source: KafkaController.onControllerFailover of 3.9.1.
"""

from typing import Final

import numpy as np

from kcore.controller.rules.features import supports
from kcore.controller.zk import features
from kcore.controller.zk.decision import Decision
from kcore.controller.zk.effects import Steps, read_children, read_nodes, write_nodes
from kcore.controller.zk.leaders import unclean
from kcore.controller.zk.log_lines import NEW_PARTITIONS
from kcore.controller.zk.state_changes import carry_out
from kcore.controller.zk.topics import assignments
from kcore.controller.zk.watches import CREATED
from kcore.controller.zk.zk_context import ControllerContext
from kcore.controller.zk.znode_reading import pass_over, read_broker, read_states, read_topics
from kcore.errors import TableError
from kcore.metadata.table.broker_table import BrokerTable
from kcore.metadata.table.partition_table import NO_TOPIC, PartitionTable
from kcore.metadata.zookeeper import znodes
from kcore.metadata.zookeeper.znode_brokers import BrokerNode
from kcore.metadata.zookeeper.znode_operations import Delete, Node

WATCHED_CHILDREN: Final = (
    znodes.BROKER_IDS,
    znodes.TOPICS,
    znodes.DELETE_TOPICS,
    znodes.LOG_DIR_EVENT_NOTIFICATION,
    znodes.ISR_CHANGE_NOTIFICATION,
    znodes.CONFIG_CHANGES,
)


def on_controller_failover(context: ControllerContext, epoch: int) -> Steps[None]:
    """Reads the cluster and sends all states; the functions in `handlers.RESUMED` do the rest of the failover."""
    context.finalized = yield from features.set_up(context.config.inter_broker_protocol)
    for path in WATCHED_CHILDREN:
        yield from read_children(path, watch=True)
    context.config_changes_seen = {*(yield from read_children(znodes.CONFIG_CHANGES))}
    yield from read_nodes(list(CREATED), watch=True)
    yield from delete_children(znodes.LOG_DIR_EVENT_NOTIFICATION)
    yield from delete_children(znodes.ISR_CHANGE_NOTIFICATION)
    yield from _read_cluster(context, epoch)
    deleted = yield from read_children(znodes.DELETE_TOPICS)
    context.topics_to_be_deleted.update(name for name in deleted if name in context.table.topics)
    batch = context.batch()
    batch.add_update_metadata(np.flatnonzero(context.table.brokers.live))
    yield from context.send(batch)
    yield from start_state_machines(context)


def delete_children(path: str) -> Steps[None]:
    """Deletes old notifications, because the data that they announce is read again anyway (KAFKA-5879)."""
    names = yield from read_children(path)
    if names:
        yield from write_nodes([Delete(f"{path}/{name}") for name in names])


def _read_cluster(context: ControllerContext, epoch: int) -> Steps[None]:
    """Fills the table from ZooKeeper (KafkaController.initializeControllerContext)."""
    brokers = yield from _read_brokers(context)
    names = yield from read_children(znodes.TOPICS)
    nodes = yield from read_nodes([znodes.topic_path(name) for name in names], watch=True)
    found = {name: node.data for name, node in zip(names, nodes, strict=True) if node is not None}
    topics, errors = read_topics(found)
    yield from pass_over(context.passed_over, errors)
    context.take_over(PartitionTable.from_arrays(**assignments.arrays_of(topics, brokers)), epoch)
    yield from assignments.give_topic_ids(context, topics.names)
    states = yield from read_states(context, np.arange(len(context.table), dtype=np.int32))
    assignments.know_brokers(context.table, states.changes.isr, states.changes.leaders)
    context.table.apply(states.changes, controller_epoch=states.controller_epochs, check_epochs=False)


def _read_brokers(context: ControllerContext) -> Steps[BrokerTable]:
    """The registered brokers that support all finalized features, with their epochs.

    Watches their znodes for new endpoints.
    """
    names = yield from read_children(znodes.BROKER_IDS)
    nodes = yield from read_nodes([f"{znodes.BROKER_IDS}/{name}" for name in names], watch=True)
    found: dict[int, Node] = {}
    registered: dict[int, BrokerNode] = {}
    for name, node in zip(names, nodes, strict=True):
        if node is None:
            continue
        try:
            broker_id, registered[broker_id] = read_broker(name, node.data)
            found[broker_id] = node
        except TableError as error:
            yield from pass_over(context.passed_over, [error])
    levels = context.finalized.node.features
    fit = {broker_id: each for broker_id, each in registered.items() if supports(each.features, levels)}
    context.features_of = {broker_id: each.features for broker_id, each in fit.items()}
    context.not_coordinating = {broker_id for broker_id, each in fit.items() if not each.coordinates}
    return BrokerTable.from_arrays(
        np.array(list(fit), np.int64),
        epochs=np.array([found[broker_id].czxid for broker_id in fit], np.int64),
        racks=[each.rack for each in fit.values()],
        endpoints=[each.endpoints for each in fit.values()],
    )


def start_state_machines(context: ControllerContext) -> Steps[None]:
    """Elects leaders where needed and sends all states (ReplicaStateMachine and PartitionStateMachine.startup).

    Unchanged states are sent, too: the previous controller may have died before it sent them.
    """
    decisions, table = context.decisions, context.table
    every = np.flatnonzero(table.topic_row__p != NO_TOPIC).astype(np.int32)
    yield from assignments.replace_unfit(context, every)
    assignments.warn_of_unfit(context)
    yield from unclean.learn(context, every)
    yield from carry_out(context, decisions.on_failover, "failover, replicas that are offline")
    yield from carry_out(context, decisions.on_offline_partitions, "failover, partitions without a leader")
    created: Decision = yield from carry_out(context, lambda: decisions.on_new_partitions(every), NEW_PARTITIONS)
    batch = context.batch()
    batch.add_to_replicas(every[~context.decisions.situation().being_deleted(every)])
    batch.add_to_replicas(created.changes.rows, is_new=True)
    yield from context.send(batch)
