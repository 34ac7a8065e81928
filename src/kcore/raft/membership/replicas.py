"""The participants of a quorum: replicas by id and directory, and their endpoints."""

from collections.abc import Mapping
from typing import NamedTuple

from kcore.types import Uuid

NO_DIRECTORY = Uuid()


class ReplicaKey(NamedTuple):
    """A replica: the node's id and its metadata directory; NO_DIRECTORY where it is not known (static voters).

    Source: ReplicaKey.
    """

    id: int
    directory_id: Uuid = NO_DIRECTORY


class Address(NamedTuple):
    """The address of a listener."""

    host: str
    port: int


Endpoints = Mapping[str, Address]  # By the listener's name; in the order in which they were configured.


class Voter(NamedTuple):
    """A member of the voter set, its listeners and the kraft.version's that it can do (VoterSet.VoterNode)."""

    key: ReplicaKey
    endpoints: Endpoints
    min_kraft_version: int = 0
    max_kraft_version: int = 0


class ElectionState(NamedTuple):
    """The durable state of a replica: its epoch, the leader of that epoch (-1: unknown) and its vote.

    Source: ElectionState; the file `quorum-state`.
    """

    epoch: int
    leader_id: int = -1
    voted: ReplicaKey | None = None
