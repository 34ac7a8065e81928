"""The state of an active controller, and the operations on it that all subjects share.

Source: ControllerContext of 3.9.1, and KafkaController's fields. The subjects (topics/, leaders/, brokers/, admin/) are
functions over it; `active.py` dispatches events to them.
"""

from collections.abc import Callable, Collection
from typing import NamedTuple

import numpy as np

from kcore.constants import INTERNAL_TOPICS, NO_EPOCH
from kcore.controller.rules.features import Supported
from kcore.controller.rules.mutation_quotas import RATE, MutationQuotas
from kcore.controller.zk.acls import ZkAcls
from kcore.controller.zk.decision import Decision
from kcore.controller.zk.effects import Send, SendResponse, Steps
from kcore.controller.zk.events import RequestEvent
from kcore.controller.zk.features import NOTHING_FINALIZED, Finalized
from kcore.controller.zk.requests.builder import RequestBatch, add_decision
from kcore.controller.zk.topics.deletion_progress import TopicDeletions
from kcore.controller.zk.zk_controller import ZkController
from kcore.controller.zk.zk_controller_config import ControllerConfig
from kcore.controller.zk.znode_quotas import ZnodeQuotas
from kcore.metadata.table.broker_registration import LiveBroker
from kcore.metadata.table.broker_table import BrokerTable
from kcore.metadata.table.partition_table import PartitionTable
from kcore.metadata.table.topic_table import TopicTable
from kcore.schema.structure import Message
from kcore.types import Int32s, Uuid


class LeadersAwaited(NamedTuple):
    """A CreateTopics or CreatePartitions that is answered when its topics are led (`admin/leaders_awaited.py`)."""

    deadline_ms: int
    names: frozenset[str]
    response: Callable[[Collection[str]], Message]  # The answer where these topics lack a leader.


class Hooks(NamedTuple):
    """Which subjects go on after one another; `handlers.py` has the table."""

    # After brokers started and were sent what they hold; by broker ids.
    brokers_started: "tuple[Callable[[ControllerContext, list[int]], Steps[None]], ...]"
    # Replicas of topics being deleted went offline; by broker id and partition rows.
    deletion_offline: "tuple[Callable[[ControllerContext, int, Int32s], Steps[None]], ...]"
    # Topics are deleted, with all that there was of them; by name.
    topics_deleted: "tuple[Callable[[ControllerContext, list[str]], Steps[None]], ...]"


class ControllerContext:
    """The cluster as it is decided and written, and everything that waits."""

    decisions: ZkController  # The table, the controller epoch, the decisions over them.
    epoch_version: int  # The version of /controller_epoch that every write is fenced by.
    is_active: bool
    deletion: TopicDeletions  # How far the topics to be deleted are.
    reassigned: dict[int, None]  # Partition rows whose moves may be over: the next ReassignmentStep looks.
    modified_topics: dict[str, None]  # Whose znodes changed: the next PartitionModificationsStep reads them.
    written_topics: dict[str, bytes]  # What this controller wrote to topics' znodes: its own watch tells of that, too.
    waiting: dict[int, RequestEvent[Message]]  # By request id: those that have no answer yet.
    leaders_awaited: dict[int, LeadersAwaited]  # By request id.
    config_changes_seen: set[str]  # Children of /config/changes.
    passed_over: set[str]  # Unreadable znodes that were logged.
    finalized: Finalized  # Features (KIP-584).
    features_of: dict[int, Supported]  # The features that live brokers support, by id.
    not_coordinating: set[int]  # Brokers that coordinate no groups and no transactions, by id, as they registered last.
    acls: ZkAcls | None  # Outlives elections; None without an authorizer.
    mutation_quotas: MutationQuotas  # What is left of quotas on mutations; outlives elections.
    mutation_rates: ZnodeQuotas  # These quotas, once a request needs them.
    now_ms: int  # When the event came, by a clock of the edge that only goes forward: deadlines are counted in it.

    def __init__(
        self, config: ControllerConfig, new_uuid: Callable[[], Uuid], hooks: Hooks, acls: ZkAcls | None = None
    ) -> None:
        """`new_uuid` gives ids for topics that have none; `acls`: of the cluster, where there is an authorizer."""
        self.config, self.new_uuid, self._hooks = config, new_uuid, hooks
        self.acls = None if config.authorizer is None else acls or ZkAcls()
        self.mutation_quotas = MutationQuotas(
            config.controller_quota_window_num * config.controller_quota_window_size_seconds
        )
        self.waiting = {}
        self.clear()

    def clear(self) -> None:
        """Clears the state: only what is read again may be used (KAFKA-12315)."""
        nothing = np.empty((0, 0), np.int32)
        table = PartitionTable.from_arrays(
            nothing, topics=TopicTable([]), topic_rows=[], brokers=BrokerTable.from_arrays(np.empty(0, np.int32))
        )
        self.take_over(table, NO_EPOCH)
        self.is_active, self.epoch_version = False, NO_EPOCH
        self.deletion, self.leaders_awaited, self.reassigned = TopicDeletions(), {}, {}
        self.modified_topics, self.written_topics = {}, {}
        self.config_changes_seen = set()
        self.passed_over = set()
        self.mutation_rates = ZnodeQuotas(RATE)
        self.finalized, self.features_of, self.not_coordinating = NOTHING_FINALIZED, {}, set()

    def take_over(self, table: PartitionTable, epoch: int) -> None:
        """Sets the table and the controller epoch."""
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

    def unfit_for(self, topic: str) -> set[int]:
        """Brokers that the topic's replicas are not placed on: this controller, unless its id is a live broker's, too.

        The leader of a partition of an internal topic coordinates groups or transactions, which fail on a broker
        without coordinators.
        """
        brokers, own = self.table.brokers, self.config.broker_id
        is_broker = own in brokers and bool(brokers.live[brokers.row(own)])
        return ({*()} if is_broker else {own}) | (self.not_coordinating if topic in INTERNAL_TOPICS else {*()})

    def after_brokers_started(self, broker_ids: list[int]) -> Steps[None]:
        """Reassignments and deletions that waited for them go on."""
        for resume in self._hooks.brokers_started:
            yield from resume(self, broker_ids)

    def after_replicas_offline(self, broker_id: int, rows: Int32s) -> Steps[None]:
        """Deletions that wait for these replicas fail for now."""
        deleted = rows[self.decisions.situation().being_deleted(rows)]
        for fail in self._hooks.deletion_offline if len(deleted) else ():
            yield from fail(self, broker_id, deleted)

    def after_topics_deleted(self, names: list[str]) -> Steps[None]:
        """Whatever else spoke of these topics forgets them."""
        for forget in self._hooks.topics_deleted:
            yield from forget(self, names)

    def answer(self, request_id: int, response: Message) -> Steps[None]:
        """The one answer to a request that came in as an event."""
        del self.waiting[request_id]
        yield SendResponse(request_id, response)

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
            places=self.decisions.places,
        )

    def send(self, batch: RequestBatch) -> Steps[None]:
        """Sends the collected requests."""
        if requests := batch.requests():
            yield Send(requests)

    def send_decision(self, decision: Decision) -> Steps[None]:
        """The control requests for a decision that has been written and replayed."""
        batch = self.batch()
        add_decision(batch, self.table, decision)
        yield from self.send(batch)
