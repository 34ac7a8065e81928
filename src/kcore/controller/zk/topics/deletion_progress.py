"""The progress of topic deletions: states of replicas, the queued work, and the requests that wait for the end.

Source: TopicDeletionManager and ReplicaStateMachine of 3.9.1.
"""

from collections.abc import Collection
from dataclasses import dataclass, field

import numpy as np

from kcore.controller.rules.mutation_quotas import MutationQuota
from kcore.metadata.table.partition_table import PartitionTable
from kcore.schema import DeleteTopicsResponse
from kcore.types import Int8s, Int32s

# States of a replica: StopReplica is not sent; it is sent; the broker is not live or reported an error; it is deleted.
OFFLINE, STARTED, INELIGIBLE, SUCCESSFUL = range(4)


class ReplicaStates:
    """The deletion state of each replica in the table, by partition row and slot; OFFLINE if it is not deleted."""

    def __init__(self) -> None:
        self._states__ps: Int8s = np.zeros((0, 0), np.int8)

    def of(self, table: PartitionTable) -> Int8s:
        """The states in the shape of `table.replicas__ps`, for reading and changing in place."""
        shape = table.replicas__ps.shape
        if self._states__ps.shape != shape:  # The table has grown; rows and slots stay where they are.
            wider = np.zeros(shape, np.int8)
            rows, slots = self._states__ps.shape
            wider[:rows, :slots] = self._states__ps
            self._states__ps = wider
        return self._states__ps


@dataclass(slots=True)
class StartedDeletion:
    """The deletion of one topic: its partitions, and the number of replicas that are not deleted yet."""

    rows: Int32s  # By ascending partition index.
    left: int  # The number of replicas that are not SUCCESSFUL.
    unanswered: int = 0  # The number of replicas that are STARTED: their brokers have not responded.


@dataclass(slots=True)
class AwaitedDeletion:
    """A DeleteTopics request that is answered when its topics are deleted, or at the time-out."""

    deadline_ms: int
    topics: set[str]  # Topics that still exist.
    quota: MutationQuota  # The request's mutation quota.
    response: DeleteTopicsResponse  # The response once all topics are deleted.

    def answer(self, now_ms: int) -> DeleteTopicsResponse:
        """The response with the present throttle time."""
        self.response.throttle_time_ms = self.quota.throttle_time_at(now_ms)
        return self.response


@dataclass(slots=True)
class TopicDeletions:
    """The progress of the topics in `topics_to_be_deleted`."""

    ineligible: set[str] = field(default_factory=set)  # Topics that wait for a broker or the end of a reassignment.
    started: dict[str, StartedDeletion] = field(default_factory=dict)
    states: ReplicaStates = field(default_factory=ReplicaStates)
    awaited: dict[int, AwaitedDeletion] = field(default_factory=dict)  # By request id.
    # Work that is done in parts. `to_start`: topics whose StopReplica must be sent. `to_remove`: topics whose znodes
    # must be deleted, with the number of partitions whose znodes are deleted already.
    to_start: dict[str, None] = field(default_factory=dict)
    to_remove: dict[str, int] = field(default_factory=dict)
    is_next_step_due: bool = False  # A TopicDeletionStep is in the queue.

    def forget(self, table: PartitionTable, names: Collection[str]) -> None:
        """Removes topics that are about to leave the table; another topic may get their rows."""
        states = self.states.of(table)
        for name in names:
            self.ineligible.discard(name)
            self.to_start.pop(name, None)
            self.to_remove.pop(name, None)
            started = self.started.pop(name, None)
            if started is not None:
                states[started.rows] = OFFLINE
