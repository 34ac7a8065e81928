"""How far the deletion of topics is: their replicas' states, and who waits for the end.

Source: TopicDeletionManager and ReplicaStateMachine of 3.9.1.
"""

from dataclasses import dataclass, field
from typing import Final

import numpy as np

from kcore.schema import DeleteTopicsResponse
from kcore.types import Int8s, Int16s, Int32s

# Of a replica; NOBODY: there is none in that slot.
OFFLINE, STARTED, INELIGIBLE, SUCCESSFUL, NOBODY = range(5)
OVER: Final = (SUCCESSFUL, NOBODY)


@dataclass(slots=True)
class DoomedTopic:
    """A topic whose deletion has begun: its partitions, by ascending index, and what became of each replica."""

    rows: Int32s  # p
    partition_indexes: Int32s  # p
    replicas__ps: Int16s  # broker rows, as in the table; they change no more.
    states__ps: Int8s

    @property
    def is_over(self) -> bool:
        """Whether no broker has anything of it any more."""
        return bool(np.isin(self.states__ps, OVER).all())


@dataclass(slots=True)
class AwaitedDeletion:
    """A DeleteTopics that is answered when its topics are gone, or when its time is up."""

    deadline_ms: int
    topics: set[str]  # Those that are still there.
    response: DeleteTopicsResponse  # As it is once all are gone.


@dataclass(slots=True)
class TopicDeletions:
    """How far the topics in `topics_to_be_deleted` are."""

    ineligible: set[str] = field(default_factory=set)  # They wait for a broker, or for the end of a reassignment.
    started: dict[str, DoomedTopic] = field(default_factory=dict)
    awaited: dict[int, AwaitedDeletion] = field(default_factory=dict)  # By request id.
