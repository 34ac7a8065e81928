"""The active ZooKeeper-mode controller: handles one event at a time, and yields effects that the server performs.

It uses no sockets, no ZooKeeper client and no clock. Source: KafkaController of 3.9.1 and its ControllerEventThread.
"""

from collections.abc import Callable
from typing import Final

import numpy as np

from kcore.controller.rules.features import supports
from kcore.controller.zk import events
from kcore.controller.zk.admin.features import set_up
from kcore.controller.zk.decision import Decision
from kcore.controller.zk.effects import Steps
from kcore.controller.zk.events import CREATED
from kcore.controller.zk.handlers import EVENT_HANDLERS, HOOKS, REQUEST_HANDLERS, RESUMED
from kcore.controller.zk.leaders import unclean
from kcore.controller.zk.log_lines import NEW_PARTITIONS
from kcore.controller.zk.state_changes import carry_out
from kcore.controller.zk.topics import assignments
from kcore.controller.zk.zk_context import ControllerContext
from kcore.controller.zk.zk_controller_config import ControllerConfig
from kcore.controller.zk.znode_reading import read_states, read_topics
from kcore.errors import ControllerMovedError, TableError
from kcore.metadata.table.broker_table import BrokerTable
from kcore.metadata.table.partition_table import NO_TOPIC, PartitionTable
from kcore.metadata.zookeeper import znodes
from kcore.metadata.zookeeper.znode_brokers import BrokerNode, read_broker
from kcore.metadata.zookeeper.znode_operations import Delete, Node
from kcore.node.zk.acls import ZkAcls
from kcore.node.zk.znode_steps import pass_over, read_children, read_nodes, write_nodes
from kcore.protocol_errors import Errors
from kcore.schema.structure import Message
from kcore.types import Uuid

WATCHED_CHILDREN: Final = (
    znodes.BROKER_IDS,
    znodes.TOPICS,
    znodes.DELETE_TOPICS,
    znodes.LOG_DIR_EVENT_NOTIFICATION,
    znodes.ISR_CHANGE_NOTIFICATION,
    znodes.CONFIG_CHANGES,
)


def on_controller_failover(context: ControllerContext, epoch: int) -> Steps[None]:
    """Reads the cluster and sends all states; the functions in `handlers.RESUMED` do the rest of the failover.

    Watches are set before the watched data is read, and brokers are sent the list of live brokers before a LeaderAndIsr
    names leaders (KAFKA-4443). Source: KafkaController.onControllerFailover of 3.9.1.
    """
    context.finalized = yield from set_up(context.config.inter_broker_protocol)
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


class ActiveController(ControllerContext):
    """The active controller: its state, and the dispatch of events to handlers.

    `handle` is the only entry: a generator of effects. The state changes only after an effect was performed. Before the
    election and after the resignation the state is empty: requests are answered NOT_CONTROLLER, and watches ignored.
    """

    def __init__(self, config: ControllerConfig, new_uuid: Callable[[], Uuid], acls: ZkAcls | None = None) -> None:
        """`new_uuid` makes topic ids; `acls` is the node's copy of the ACLs, which CreateAcls and DeleteAcls update."""
        super().__init__(config, new_uuid, HOOKS, acls)

    def handle(self, event: events.Event, now_ms: int) -> Steps[None]:
        """The effects of an event. Every request is answered exactly once, even if the controller resigns."""
        self.now_ms = now_ms
        if isinstance(event, events.RequestEvent):
            self.waiting[event.request_id] = event
        try:
            yield from self._handle(event)
        except ControllerMovedError:
            yield from self.resign()

    def _handle(self, event: events.Event) -> Steps[None]:
        if isinstance(event, events.Elected):
            yield from self.on_elected(event)
        elif isinstance(event, events.SessionLost | events.ControllerChange):
            if isinstance(event, events.SessionLost) or event.broker_id != self.config.broker_id:
                yield from self.resign()
        elif isinstance(event, events.RequestEvent):
            yield from self._respond(event)
        elif self.is_active:
            yield from EVENT_HANDLERS[type(event)](self, event)
        yield from self.answer_those_led()

    def _respond(self, event: events.RequestEvent[Message]) -> Steps[None]:
        response: Message | None
        if self.is_active:
            response = yield from REQUEST_HANDLERS[type(event.request)](self, event)
        else:
            response = event.refused(Errors.NOT_CONTROLLER)
        if response is not None:
            yield from self.answer(event.request_id, response)

    def on_elected(self, event: events.Elected) -> Steps[None]:
        """Reads the cluster and continues the work of the previous controller (onControllerFailover)."""
        self.clear()
        self.is_active, self.epoch_version = True, event.epoch_version
        yield from on_controller_failover(self, event.epoch)
        for resume in RESUMED:
            yield from resume(self)

    def resign(self) -> Steps[None]:
        """Clears the state and answers waiting requests NOT_CONTROLLER (KAFKA-10193; onControllerResignation)."""
        self.clear()
        for event in list(self.waiting.values()):
            yield from self.answer(event.request_id, event.refused(Errors.NOT_CONTROLLER))
