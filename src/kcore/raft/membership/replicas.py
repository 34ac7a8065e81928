"""The types that describe a quorum's members: replica keys, voters, endpoints, the stored election."""

from collections.abc import Mapping
from typing import NamedTuple

from kcore.types import Uuid

NO_DIRECTORY = Uuid()


class ReplicaKey(NamedTuple):
    """A replica: the node's id and its metadata directory's id; NO_DIRECTORY if that is unknown (static voters).

    Source: ReplicaKey.
    """

    id: int
    directory_id: Uuid = NO_DIRECTORY


class Address(NamedTuple):
    """The host and port of a listener."""

    host: str
    port: int


Endpoints = Mapping[str, Address]  # By listener name, in the configured order.


class Voter(NamedTuple):
    """A member of the voter set, with its listeners and its range of kraft.versions (VoterSet.VoterNode)."""

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
