"""The state of an active controller, and the operations on it that all handlers share.

The handlers in topics/, leaders/, brokers/ and admin/ are functions over this state; `active.py` calls them. Source:
ControllerContext of 3.9.1, and KafkaController's fields.
"""

from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np

from kcore.constants import INTERNAL_TOPICS, NO_EPOCH
from kcore.controller.rules.features import Supported
from kcore.controller.rules.mutation_quotas import RATE, MutationQuotas
from kcore.controller.zk.decision import Decision
from kcore.controller.zk.effects import Send, SendResponse, Steps
from kcore.controller.zk.events import RequestEvent
from kcore.controller.zk.requests.batch import RequestBatch, add_decision
from kcore.controller.zk.requests.control_request import ControlRequest
from kcore.controller.zk.topics.deletion_progress import TopicDeletions
from kcore.controller.zk.zk_controller import ZkController
from kcore.controller.zk.zk_controller_config import ControllerConfig
from kcore.metadata.table.broker_registration import LiveBroker
from kcore.metadata.table.broker_table import BrokerTable, Endpoint
from kcore.metadata.table.partition_table import PartitionTable
from kcore.metadata.table.topic_table import TopicTable
from kcore.metadata.zookeeper import znodes
from kcore.node.zk.acls import ZkAcls
from kcore.node.zk.znode_quotas import ZnodeQuotas
from kcore.node.zk.znode_steps import Pause, pause_after
from kcore.schema.structure import Message
from kcore.types import Int32s, Uuid

LOOKED_UP_AT_ONCE: Final = 250  # Topics of one part that looks for partitions without a leader: each takes some 5 us.
BUILT_AT_ONCE: Final = 10_000  # Partitions of control requests that one part builds: each takes up to 0.5 us.


class Finalized(NamedTuple):
    """The content of the /feature znode."""

    node: znodes.Feature
    version: int  # The version of the znode.


class LeadersAwaited(NamedTuple):
    """A CreateTopics or CreatePartitions that waits until its topics have leaders."""

    deadline_ms: int
    names: frozenset[str]
    response: Callable[[Collection[str]], Message]  # The response, given the topics that have no leader yet.


class ControllerHooks(NamedTuple):
    """The functions that continue waiting work after an event of another subject; `handlers.HOOKS` has them."""

    # Brokers started, and were sent the partitions that they have replicas of; the argument has their ids.
    brokers_started: "tuple[Callable[[ControllerContext, list[int]], Steps[None]], ...]"
    # Replicas of topics being deleted went offline; the arguments are the broker id and the partition rows.
    deletion_offline: "tuple[Callable[[ControllerContext, int, Int32s], Steps[None]], ...]"
    # Topics and all their znodes are deleted; the argument has their names.
    topics_deleted: "tuple[Callable[[ControllerContext, list[str]], Steps[None]], ...]"


class ControllerContext:
    """The cluster as ZooKeeper has it, and all waiting work."""

    decisions: ZkController  # The table, the controller epoch, and the functions that decide.
    epoch_version: int  # The version of /controller_epoch that fences every write.
    is_active: bool
    deletion: TopicDeletions  # The progress of topic deletions.
    reassigned: dict[int, None]  # Partition rows whose reassignment may be complete: the next ReassignmentStep checks.
    modified_topics: dict[str, None]  # Topics whose znodes changed: the next PartitionModificationsStep reads them.
    written_topics: dict[str, bytes]  # Data that this controller wrote to topic znodes, whose watches it ignores.
    waiting: dict[int, RequestEvent[Message]]  # By request id: requests without a response yet.
    leaders_awaited: dict[int, LeadersAwaited]  # By request id.
    config_changes_seen: set[str]  # Children of /config/changes.
    passed_over: set[str]  # Errors of unreadable znodes that were logged.
    finalized: Finalized  # Features (KIP-584).
    features_of: dict[int, Supported]  # The features that live brokers support, by id.
    not_coordinating: set[int]  # Ids of the brokers that registered as coordinating no groups and no transactions.
    acls: ZkAcls | None  # Outlives elections; None without an authorizer.
    mutation_quotas: MutationQuotas  # The use of the mutation quotas; outlives elections.
    mutation_rates: ZnodeQuotas  # The mutation quotas, read when a request first needs them.
    now_ms: int  # When the event is handled, by the server's monotonic clock; deadlines use it.

    def __init__(
        self, config: ControllerConfig, new_uuid: Callable[[], Uuid], hooks: ControllerHooks, acls: ZkAcls | None = None
    ) -> None:
        """`new_uuid` makes topic ids; `acls` is the node's copy of the ACLs, which is unused without an authorizer."""
        self.config, self.new_uuid, self._hooks = config, new_uuid, hooks
        self.acls = None if config.authorizer is None else acls or ZkAcls()
        self.mutation_quotas = MutationQuotas(
            config.controller_quota_window_num * config.controller_quota_window_size_seconds
        )
        self.waiting = {}
        self.clear()

    def listen_at(self, endpoints: tuple[Endpoint, ...]) -> None:
        """Sets the controller's own endpoints, which a free port decides after the construction."""
        self.config = replace(self.config, endpoints=endpoints)

    def clear(self) -> None:
        """Clears the state, so that nothing of an earlier term is used (KAFKA-12315)."""
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
        self.finalized = Finalized(znodes.Feature(False, {}), NO_EPOCH)
        self.features_of, self.not_coordinating = {}, set()

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
        """The partition table: the states that ZooKeeper has accepted."""
        return self.decisions.table

    @property
    def offline_dirs(self) -> dict[int, set[int]]:
        """Replicas on failed log directories: partition rows by broker id (replicasOnOfflineDirs)."""
        return self.decisions.offline_dirs

    @property
    def topics_to_be_deleted(self) -> set[str]:
        """Topics that are queued for deletion (ControllerContext.topicsToBeDeleted)."""
        return self.decisions.topics_to_be_deleted

    def unfit_for(self, topic: str) -> set[int]:
        """Brokers that must not have replicas of the topic.

        These are this controller, unless a live broker has its id, and for internal topics also brokers without
        coordinators. The leader of an internal topic's partition coordinates groups or transactions.
        """
        brokers, own = self.table.brokers, self.config.broker_id
        is_broker = own in brokers and bool(brokers.live[brokers.row(own)])
        return ({*()} if is_broker else {own}) | (self.not_coordinating if topic in INTERNAL_TOPICS else {*()})

    def after_brokers_started(self, broker_ids: list[int]) -> Steps[None]:
        """Continues the reassignments and deletions that wait for these brokers."""
        for resume in self._hooks.brokers_started:
            yield from resume(self, broker_ids)

    def after_replicas_offline(self, broker_id: int, rows: Int32s) -> Steps[None]:
        """Suspends the deletions that wait for these replicas."""
        deleted = rows[self.decisions.situation().being_deleted(rows)]
        for fail in self._hooks.deletion_offline if len(deleted) else ():
            yield from fail(self, broker_id, deleted)

    def after_topics_deleted(self, names: list[str]) -> Steps[None]:
        """Removes these topics from other waiting work."""
        for forget in self._hooks.topics_deleted:
            yield from forget(self, names)

    def answer(self, request_id: int, response: Message) -> Steps[None]:
        """Sends the response to a waiting request."""
        del self.waiting[request_id]
        yield SendResponse(request_id, response)

    def answer_when_led(
        self, request_id: int, names: Collection[str], timeout_ms: int, response: Callable[[Collection[str]], Message]
    ) -> Message | None:
        """Delays a response until all partitions of the topics have leaders or the time-out ends, and returns None.

        With a time-out of 0, returns the response, in which all topics lack leaders. Source: DelayedCreatePartitions.
        """
        if timeout_ms <= 0:
            return response(names)
        self.leaders_awaited[request_id] = LeadersAwaited(self.now_ms + timeout_ms, frozenset(names), response)
        return None

    def answer_those_led(self) -> Steps[None]:
        """Answers the requests whose topics have leaders now, or whose time-out is over; called after every event."""
        for request_id, awaited in list(self.leaders_awaited.items()):
            leaderless = set()
            for place, name in enumerate(awaited.names, 1):
                yield from pause_after(place, LOOKED_UP_AT_ONCE)
                if not self._is_led(name):
                    leaderless.add(name)
            if not leaderless or awaited.deadline_ms <= self.now_ms:
                del self.leaders_awaited[request_id]
                yield from self.answer(request_id, awaited.response(leaderless))

    def _is_led(self, name: str) -> bool:
        """True if the topic exists and each of its partitions has a leader."""
        table = self.table
        return name in table.topics and bool((table.leader__p[table.rows_of_topic(name)] >= 0).all())

    def batch(self) -> RequestBatch:
        """A new batch of control requests, built from the current state."""
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
        """Sends the requests of a batch. If they have many partitions, a part builds those of one kind."""
        requests: list[ControlRequest] = []
        for some in batch.requests_by_kind():
            requests += some
            if sum(each.partitions for each in some) >= BUILT_AT_ONCE:
                yield Pause()
        if requests:
            yield Send(requests)

    def send_decision(self, decision: Decision) -> Steps[None]:
        """Sends the control requests for a decision that has been written and replayed."""
        batch = self.batch()
        add_decision(batch, self.table, decision)
        yield from self.send(batch)
