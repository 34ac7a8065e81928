"""The active ZooKeeper-mode controller: one event at a time, from start to end, as effects for the edge.

Source: KafkaController of 3.9.1 and its ControllerEventThread. It knows no socket, no ZooKeeper and no clock.
"""

from collections.abc import Callable

import numpy as np

from kcore.constants import NO_EPOCH
from kcore.controller import events, failover
from kcore.controller.admin.leaders_awaited import LeadersAwaited, answer_those_led
from kcore.controller.config import ControllerConfig
from kcore.controller.decision import Decision
from kcore.controller.effects import Answer, Send, Steps
from kcore.controller.features import Finalized, Supported
from kcore.controller.handlers import (
    AFTER_BROKERS_STARTED,
    AFTER_DELETION_OFFLINE,
    AFTER_TOPICS_DELETED,
    HANDLERS,
    RESUMED,
)
from kcore.controller.requests.builder import RequestBatch, add_decision
from kcore.controller.requests.live_brokers import LiveBroker
from kcore.controller.topics.deletion import TopicDeletions
from kcore.controller.zk_controller import ZkController
from kcore.errors import ControllerMovedError
from kcore.metadata.broker_table import BrokerTable
from kcore.metadata.partition_table import PartitionTable
from kcore.metadata.topics import TopicTable
from kcore.metadata.znodes import Feature
from kcore.protocol_errors import Errors
from kcore.schema.structure import Message
from kcore.types import Int32s, Uuid


class ActiveController:
    """All that a controller knows while it is active, and the way from an event to its handler.

    `handle` is the one entry: a generator of effects that changes state only as far as they were performed. Before it
    is elected and after it has resigned it knows nothing; requests are answered NOT_CONTROLLER then, watches are no
    news.
    """

    decisions: ZkController  # The table, the controller epoch, the decisions over them.
    epoch_version: int  # The version of /controller_epoch that every write is fenced by.
    is_active: bool
    deletion: TopicDeletions  # How far the topics to be deleted are.
    waiting: dict[int, events.RequestEvent]  # By request id: those that have no answer yet.
    leaders_awaited: dict[int, LeadersAwaited]  # By request id.
    config_changes_seen: set[str]  # Children of /config/changes.
    finalized: Finalized  # Features (KIP-584).
    features_of: dict[int, Supported]  # What live brokers support, by id.
    now_ms: int  # The edge's clock when the event came.

    def __init__(self, config: ControllerConfig, new_uuid: Callable[[], Uuid]) -> None:
        """`new_uuid` gives ids for topics that have none."""
        self.config, self.new_uuid = config, new_uuid
        self.waiting = {}
        self._clear()

    def _clear(self) -> None:
        """Everything is forgotten: what is not read anew must not be believed (KAFKA-12315)."""
        nothing = np.empty((0, 0), np.int32)
        table = PartitionTable.from_arrays(
            nothing, topics=TopicTable([]), topic_rows=[], brokers=BrokerTable.from_arrays(np.empty(0, np.int32))
        )
        self.take_over(table, NO_EPOCH)
        self.is_active, self.epoch_version = False, NO_EPOCH
        self.deletion, self.leaders_awaited = TopicDeletions(), {}
        self.config_changes_seen = set()
        self.finalized, self.features_of = Finalized(Feature(False, {}), NO_EPOCH), {}

    def take_over(self, table: PartitionTable, epoch: int) -> None:
        """From now on this table counts, under this controller epoch."""
        self.decisions = ZkController(
            self.config.broker_id,
            epoch,
            table,
            inter_broker_protocol=self.config.inter_broker_protocol,
            unclean=self.config.unclean_leader_election_enable,
        )

    @property
    def table(self) -> PartitionTable:
        """The cluster as it is decided and written."""
        return self.decisions.table

    @property
    def offline_dirs(self) -> dict[int, set[int]]:
        """Broker id -> partition rows: replicas on failed log directories (replicasOnOfflineDirs)."""
        return self.decisions.offline_dirs

    @property
    def topics_to_be_deleted(self) -> set[str]:
        """Topics that are queued for deletion (ControllerContext.topicsToBeDeleted)."""
        return self.decisions.topics_to_be_deleted

    def handle(self, event: events.Event, now_ms: int) -> Steps[None]:
        """What an event asks of the edge. Every request among the events is answered once, whatever happens."""
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
            yield from self._on_moved(event)
        elif self.is_active:
            yield from HANDLERS[type(event)](self, event)
            yield from answer_those_led(self)
        elif isinstance(event, events.RequestEvent):
            yield from self.answer(event.request_id, event.refused(Errors.NOT_CONTROLLER))

    def on_elected(self, event: events.Elected) -> Steps[None]:
        """KafkaController.onControllerFailover: all that the last controller knew is read, or begun anew."""
        self._clear()
        self.is_active, self.epoch_version = True, event.epoch_version
        yield from failover.on_controller_failover(self, event.epoch)
        for resume in RESUMED:
            yield from resume(self)

    def _on_moved(self, event: "events.SessionLost | events.ControllerChange") -> Steps[None]:
        if isinstance(event, events.SessionLost) or event.broker_id != self.config.broker_id:
            yield from self.resign()

    def resign(self) -> Steps[None]:
        """KafkaController.onControllerResignation; whoever waits is told that it asks the wrong one (KAFKA-10193)."""
        self._clear()
        for event in list(self.waiting.values()):
            yield from self.answer(event.request_id, event.refused(Errors.NOT_CONTROLLER))

    def after_brokers_started(self, broker_ids: list[int]) -> Steps[None]:
        """Reassignments and deletions that waited for them go on."""
        for resume in AFTER_BROKERS_STARTED:
            yield from resume(self, broker_ids)

    def after_replicas_offline(self, broker_id: int, rows: Int32s) -> Steps[None]:
        """Deletions that wait for these replicas fail for now."""
        deleted = rows[self.decisions.situation().being_deleted(rows)]
        for fail in AFTER_DELETION_OFFLINE if len(deleted) else ():
            yield from fail(self, broker_id, deleted)

    def after_topics_deleted(self, names: list[str]) -> Steps[None]:
        """Whatever else spoke of these topics forgets them."""
        for forget in AFTER_TOPICS_DELETED:
            yield from forget(self, names)

    def answer(self, request_id: int, response: Message) -> Steps[None]:
        """The one answer to a request that came in as an event."""
        del self.waiting[request_id]
        yield Answer(request_id, response)

    def batch(self) -> RequestBatch:
        """A batch of control requests from what is known now."""
        return RequestBatch(
            self.config.broker_id,
            self.decisions.controller_epoch,
            self.table,
            self.decisions.versions,
            listed=LiveBroker(self.config.broker_id, self.config.endpoints, self.config.rack),
            inter_broker_listener=self.config.inter_broker_listener_name,
            topics_to_be_deleted=self.topics_to_be_deleted,
            topics_with_deletion_started=self.deletion.started,
            offline_dirs=self.offline_dirs,
        )

    def send(self, batch: RequestBatch) -> Steps[None]:
        """What has been gathered leaves."""
        if requests := batch.requests():
            yield Send(requests)

    def send_decision(self, decision: Decision) -> Steps[None]:
        """What brokers must hear of a decision that has been written and replayed."""
        batch = self.batch()
        add_decision(batch, self.table, decision)
        yield from self.send(batch)
