"""The queue of ISR changes for the controller. One request is in flight, and has each partition once.

Source: DefaultAlterPartitionManager of 3.9.1 (KIP-497).
"""

from typing import Any, Final, NamedTuple

from kcore.broker.replicas.partition import IsrChange, IsrResponse
from kcore.broker.replicas.replica import Key
from kcore.constants import UNKNOWN_BROKER_EPOCH
from kcore.metadata.zookeeper.znodes import PartitionStateNode, encode_state, state_path
from kcore.protocol_errors import Errors
from kcore.schema.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
    AlterPartitionResponse,
    BrokerState,
)
from kcore.types import ZERO_UUID, Uuid

RETRY_MS: Final = 50  # Back-off after a request without a response.
BY_TOPIC_ID_SINCE: Final = 2  # The first version of AlterPartition with topic ids.
WITH_EPOCHS_SINCE: Final = 3  # The first version of AlterPartition with broker epochs of ISR members.


class StateWrite(NamedTuple):
    """A conditional write of a partition's state to its znode, which must have `version` (before KIP-497)."""

    change: IsrChange
    path: str
    data: bytes
    version: int


class IsrChanges:
    """The proposed changes that have no response yet."""

    def __init__(self, broker_id: int) -> None:
        self.broker_id = broker_id
        self._unsent: dict[Key, IsrChange] = {}
        self._in_flight: list[IsrChange] = []
        self._retry_at_ms = 0

    def __len__(self) -> int:
        return len(self._unsent)

    def submit(self, change: IsrChange) -> bool:
        """Adds a change; False if an older change of the partition has no response yet."""
        return self._unsent.setdefault(change.key, change) is change

    def wait_ms(self, now_ms: int) -> int | None:
        """The time until the next request; None without changes, or while a request is in flight."""
        return max(self._retry_at_ms - now_ms, 0) if self._unsent and not self._in_flight else None

    def next_writes(self) -> list[StateWrite]:
        """The writes of all changes, for a protocol without AlterPartition, in which leaders write the states."""
        self._begin()
        return [_state_write(change, self.broker_id) for change in self._in_flight]

    def next_request(self, broker_epoch: int) -> AlterPartitionRequest:
        """A request with all waiting changes; the method `version` returns the version to send it in."""
        self._begin()
        topics: dict[str, AlterPartitionRequestTopicData] = {}
        for change in self._in_flight:
            name = change.key[0]
            topic = topics.setdefault(
                name, AlterPartitionRequestTopicData(topic_name=name, topic_id=change.topic_id, partitions=[])
            )
            topic.partitions.append(_partition_data(change))
        return AlterPartitionRequest(broker_id=self.broker_id, broker_epoch=broker_epoch, topics=[*topics.values()])

    def _begin(self) -> None:
        assert self._unsent and not self._in_flight, "one request at a time"
        self._in_flight = [*self._unsent.values()]

    def version(self, highest: int) -> int:
        """The version of the request: `highest`, or one with topic names if a topic has no id."""
        ids = all(change.topic_id != ZERO_UUID for change in self._in_flight)
        return highest if ids else min(highest, BY_TOPIC_ID_SINCE - 1)

    def failed(self, now_ms: int) -> None:
        """Called if the request got no response: its changes are sent again. Controllers accept this (KAFKA-14144)."""
        self._in_flight = []
        self._retry_at_ms = now_ms + RETRY_MS

    def written(self, versions: dict[Key, int | None], now_ms: int) -> list[tuple[IsrChange, Errors | IsrResponse]]:
        """The result of each change after the writes.

        `versions` has each znode's new version, None if the znode had an unexpected version. Partitions without a
        result are written again.
        """
        sent = self._in_flight
        self.failed(now_ms)
        settled: list[tuple[IsrChange, Errors | IsrResponse]] = []
        for change in sent:
            if change.key in versions:
                del self._unsent[change.key]
                version = versions[change.key]
                answer = None if version is None else IsrResponse(change.leader_epoch, version, change.isr)
                settled.append((change, answer or Errors.INVALID_UPDATE_VERSION))
        return settled

    def answered(self, response: AlterPartitionResponse, now_ms: int) -> list[tuple[IsrChange, Errors | IsrResponse]]:
        """The result of each change. Changes without a result are sent again, as are all after a top-level error."""
        sent = self._in_flight
        self.failed(now_ms)
        if response.error_code != Errors.NONE:
            return []
        self._retry_at_ms = now_ms
        found = _by_partition(response)
        settled: list[tuple[IsrChange, Errors | IsrResponse]] = []
        for change in sent:
            name, index = change.key
            data = found.get((change.topic_id, index)) or found.get((name, index))
            if data is None:
                continue
            del self._unsent[change.key]
            error = Errors.of(data.error_code)
            answer = IsrResponse(data.leader_epoch, data.partition_epoch, tuple(data.isr))
            settled.append((change, answer if error is Errors.NONE else error))
        return settled


def _state_write(change: IsrChange, leader: int) -> StateWrite:
    """The write of a changed ISR to its znode (ReplicationUtils.updateLeaderAndIsr)."""
    state = PartitionStateNode(leader, change.leader_epoch, change.isr, change.controller_epoch)
    return StateWrite(change, state_path(*change.key), encode_state(state), change.partition_epoch)


def _partition_data(change: IsrChange) -> AlterPartitionRequestPartitionData:
    """A change with both forms of the ISR; `for_version` removes one of them.

    Only the joining member has a known broker epoch (KIP-903).
    """
    return AlterPartitionRequestPartitionData(
        partition_index=change.key[1],
        leader_epoch=change.leader_epoch,
        new_isr=[*change.isr],
        new_isr_with_epochs=[
            BrokerState(
                broker_id=each, broker_epoch=change.joins_epoch if each == change.joins else UNKNOWN_BROKER_EPOCH
            )
            for each in change.isr
        ],
        leader_recovery_state=change.leader_recovery_state,
        partition_epoch=change.partition_epoch,
    )


def _by_partition(response: AlterPartitionResponse) -> dict[tuple[Uuid | str, int], Any]:
    return {
        (topic.topic_id if topic.topic_id != ZERO_UUID else topic.topic_name, data.partition_index): data
        for topic in response.topics
        for data in topic.partitions
    }


def for_version(request: AlterPartitionRequest, version: int) -> AlterPartitionRequest:
    """Removes the form of the ISR that the version does not have."""
    for topic in request.topics:
        for data in topic.partitions:
            if version >= WITH_EPOCHS_SINCE:
                data.new_isr = []
            else:
                data.new_isr_with_epochs = []
    return request
