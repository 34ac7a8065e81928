"""Checks the answers of controllers: each is committed, and none accepts an outdated epoch."""

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from kcore.metadata.image.image import ClusterImage
from kcore.protocol_errors import Errors
from kcore.schema import broker_lifecycle as lifecycle
from kcore.schema import topics
from kcore.schema.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from kcore.schema.log_dirs import AssignReplicasToDirsRequest
from kcore.sim.cluster.cluster_facts import ClusterFacts
from kcore.sim.cluster.committed_cluster import PartitionId
from kcore.sim.cluster.exchanges import Arrival
from kcore.sim.kernel.violation import Violation
from kcore.sim.raft.story import short
from kcore.types import Uuid

_OF_BROKERS: Final = (lifecycle.BrokerHeartbeatRequest, AlterPartitionRequest, AssignReplicasToDirsRequest)
NO_EPOCH: Final = -1


class Epochs(NamedTuple):
    """The epochs that a controller knows when a request of a broker arrives. All of them only rise."""

    brokers: Mapping[int, int]
    partitions: Mapping[PartitionId, tuple[int, int]]  # Leader epoch and partition epoch.


def epochs_at_arrival(arrival: Arrival, image: ClusterImage) -> Epochs | None:
    """The epochs of the broker, the members and the partitions that a request names; None for other requests."""
    request = arrival.exchange.request
    if not isinstance(request, _OF_BROKERS):
        return None
    ids = {request.broker_id}
    partitions: dict[PartitionId, tuple[int, int]] = {}
    if isinstance(request, AlterPartitionRequest):
        for topic in request.topics:
            for data in topic.partitions:
                ids |= {member.broker_id for member in data.new_isr_with_epochs}
                known = _epochs_of(image, topic.topic_id, data.partition_index)
                if known is not None:
                    partitions[topic.topic_id, data.partition_index] = known
    rows = {each: image.brokers.registered_row(each) for each in ids}
    return Epochs({each: int(image.brokers.epochs[row]) for each, row in rows.items() if row is not None}, partitions)


def _epochs_of(image: ClusterImage, topic_id: Uuid, index: int) -> tuple[int, int] | None:
    topic_row = image.topics.row_of_id(topic_id)
    row = -1 if topic_row is None else image.table.row_at(topic_row, index)
    if row < 0:
        return None
    return int(image.table.leader_epoch__p[row]), int(image.table.partition_epoch__p[row])


class AnswerChecks:
    """Checks answers when the event that sent them has ended."""

    def __init__(self, facts: ClusterFacts) -> None:
        self._cluster = facts.cluster
        self._waiting: list[tuple[Arrival, Any]] = []
        self._checks: dict[type[Any], Callable[[Any, Any], None]] = {
            lifecycle.BrokerRegistrationRequest: self._registration,
            AlterPartitionRequest: self._alter_partition,
            topics.CreateTopicsRequest: self._create_topics,
            topics.DeleteTopicsRequest: self._delete_topics,
        }

    def on_answer(self, arrival: Arrival, response: Any) -> None:
        """A controller answers; `check` comes after the event."""
        self._waiting.append((arrival, response))

    def check(self) -> None:
        """Checks the answers since the last call."""
        if not self._waiting:
            return
        waiting, self._waiting = self._waiting, []
        for arrival, response in waiting:
            request = arrival.exchange.request
            if arrival.seen is not None:
                self._check_epochs(request, response, arrival.seen)
            check = self._checks.get(type(request))
            if check is not None:
                check(request, response)

    # I6 and I7: nothing outdated is accepted.

    def _check_epochs(self, request: Any, response: Any, seen: Epochs) -> None:
        if response.error_code != Errors.NONE:
            return
        known = seen.brokers.get(request.broker_id, NO_EPOCH)
        if request.broker_epoch < known:
            text = f"broker {request.broker_id} is registered under epoch {known}; accepted: {short(request)}"
            raise Violation("I7 StaleBrokerEpoch", text)
        if isinstance(request, AlterPartitionRequest):
            self._check_partitions(request, response, seen)

    def _check_partitions(self, request: AlterPartitionRequest, response: AlterPartitionResponse, seen: Epochs) -> None:
        accepted = {
            (topic.topic_id, data.partition_index)
            for topic in response.topics
            for data in topic.partitions
            if data.error_code == Errors.NONE
        }
        for topic in request.topics:
            for data in topic.partitions:
                key = topic.topic_id, data.partition_index
                if key not in accepted:
                    continue
                leader_epoch, partition_epoch = seen.partitions.get(key, (NO_EPOCH, NO_EPOCH))
                if data.leader_epoch < leader_epoch or data.partition_epoch < partition_epoch:
                    text = f"at leader epoch {leader_epoch} and partition epoch {partition_epoch}: {short(request)}"
                    raise Violation("I6 StalePartitionEpoch", text)
                for member in data.new_isr_with_epochs:
                    if NO_EPOCH < member.broker_epoch < seen.brokers.get(member.broker_id, NO_EPOCH):
                        text = f"broker {member.broker_id} joins under an old epoch: {short(request)}"
                        raise Violation("I7 StaleBrokerEpoch", text)

    # I3: what is answered is committed.

    def _registration(self, request: Any, response: Any) -> None:
        known = self._cluster.last_epochs.get(request.broker_id, NO_EPOCH)
        if response.error_code == Errors.NONE and response.broker_epoch > known:
            raise _uncommitted(request, response, f"the last committed epoch is {known}")

    def _alter_partition(self, request: AlterPartitionRequest, response: AlterPartitionResponse) -> None:
        for topic in response.topics:
            for data in topic.partitions:
                known = self._cluster.partitions.get((topic.topic_id, data.partition_index))
                if (
                    data.error_code == Errors.NONE
                    and known is not None
                    and data.partition_epoch > known.partition_epoch
                ):
                    raise _uncommitted(request, response, f"committed is {known}")

    def _create_topics(self, request: Any, response: Any) -> None:
        for topic in response.topics:
            is_done = topic.error_code == Errors.NONE and not request.validate_only
            if is_done and topic.topic_id not in self._cluster.created:
                raise _uncommitted(request, response, f"no committed topic has the id {topic.topic_id}")

    def _delete_topics(self, request: Any, response: Any) -> None:
        for topic in response.responses:
            if topic.error_code == Errors.NONE and topic.topic_id in self._cluster.names:
                raise _uncommitted(request, response, f"topic {topic.topic_id} is there")


def _uncommitted(request: Any, response: Any, text: str) -> Violation:
    return Violation("I3 AnsweredIsCommitted", f"{short(request)} gets {short(response)}; {text}")
