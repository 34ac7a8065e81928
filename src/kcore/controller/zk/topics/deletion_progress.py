"""The progress of deletions: states of replicas, the next parts of the work, and the requests that wait for the end.

Source: TopicDeletionManager and ReplicaStateMachine of 3.9.1.
"""

from collections.abc import Collection
from dataclasses import dataclass, field

import numpy as np

from kcore.controller.rules.mutation_quotas import MutationQuota
from kcore.metadata.table.partition_table import PartitionTable
from kcore.schema import DeleteTopicsResponse
from kcore.types import Int8s, Int32s

# Of a replica: not asked for yet, its broker was told to delete it, could not be reached or failed, has deleted it.
OFFLINE, STARTED, INELIGIBLE, SUCCESSFUL = range(4)


class ReplicaStates:
    """A state for each replica of the table, by partition row and slot; OFFLINE for those of topics that stay."""

    def __init__(self) -> None:
        self._states__ps: Int8s = np.zeros((0, 0), np.int8)

    def of(self, table: PartitionTable) -> Int8s:
        """The states, in the shape of `table.replicas__ps`, to be read and changed in place."""
        shape = table.replicas__ps.shape
        if self._states__ps.shape != shape:  # The table has grown; rows and slots stay where they are.
            wider = np.zeros(shape, np.int8)
            rows, slots = self._states__ps.shape
            wider[:rows, :slots] = self._states__ps
            self._states__ps = wider
        return self._states__ps


@dataclass(slots=True)
class DoomedTopic:
    """A topic whose deletion has begun: its partitions, and how many of their replicas are in which state."""

    rows: Int32s  # by ascending partition index
    left: int  # replicas that are not SUCCESSFUL
    unanswered: int = 0  # those of them that are STARTED: their brokers have not answered


@dataclass(slots=True)
class AwaitedDeletion:
    """A DeleteTopics that is answered when its topics are gone, or when its time is up."""

    deadline_ms: int
    topics: set[str]  # Those that are still there.
    quota: MutationQuota  # What the request used of its quota on mutations.
    response: DeleteTopicsResponse  # The response once all topics are deleted.

    def answer(self, now_ms: int) -> DeleteTopicsResponse:
        """The response, as it is given now."""
        self.response.throttle_time_ms = self.quota.throttle_time_at(now_ms)
        return self.response


@dataclass(slots=True)
class TopicDeletions:
    """The progress of the topics in `topics_to_be_deleted`."""

    ineligible: set[str] = field(default_factory=set)  # They wait for a broker, or for the end of a reassignment.
    started: dict[str, DoomedTopic] = field(default_factory=dict)
    states: ReplicaStates = field(default_factory=ReplicaStates)
    awaited: dict[int, AwaitedDeletion] = field(default_factory=dict)  # By request id.
    # What is done in parts, in this order: topics whose replicas brokers are to be told to delete, and topics that no
    # broker has any more, with the number of their partitions that are out of ZooKeeper.
    to_start: dict[str, None] = field(default_factory=dict)
    to_remove: dict[str, int] = field(default_factory=dict)
    is_next_step_due: bool = False  # A TopicDeletionStep is in the queue.

    def forget(self, table: PartitionTable, names: Collection[str]) -> None:
        """These topics are about to leave the table: their rows may be another topic's next."""
        states = self.states.of(table)
        for name in names:
            self.ineligible.discard(name)
            self.to_start.pop(name, None)
            self.to_remove.pop(name, None)
            doomed = self.started.pop(name, None)
            if doomed is not None:
                states[doomed.rows] = OFFLINE
