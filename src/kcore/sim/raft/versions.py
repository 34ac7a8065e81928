"""Chooses the version of each request between two nodes by their releases; encodes and decodes messages."""

from functools import cache
from typing import Any, Final

from kcore.constants import KRAFT_VERSION
from kcore.schema.api_versions import ApiVersionsRequest, ApiVersionsResponse, SupportedFeatureKey
from kcore.schema.describe_quorum import DescribeQuorumRequest
from kcore.schema.fetch import FetchRequest
from kcore.schema.fetch_snapshot import FetchSnapshotRequest
from kcore.schema.raft_voters import AddRaftVoterRequest, RemoveRaftVoterRequest, UpdateRaftVoterRequest
from kcore.schema.raft_votes import BeginQuorumEpochRequest, EndQuorumEpochRequest, VoteRequest
from kcore.schema.structure import Message
from kcore.sim.kernel.violation import Violation
from kcore.wire.codec import decode, encode

Versions = dict[type[Message], int]

_SAME: Final[Versions] = {
    ApiVersionsRequest: 4,
    BeginQuorumEpochRequest: 1,
    EndQuorumEpochRequest: 1,
    FetchSnapshotRequest: 1,
    DescribeQuorumRequest: 2,
    RemoveRaftVoterRequest: 0,
    UpdateRaftVoterRequest: 0,
}
VERSIONS: Final[dict[str, Versions]] = {
    "3.9": {**_SAME, VoteRequest: 1, FetchRequest: 17, AddRaftVoterRequest: 0},
    "4.3": {**_SAME, VoteRequest: 2, FetchRequest: 18, AddRaftVoterRequest: 1},
}
PRE_VOTES: Final = 2  # The first version of Vote with pre-votes (KIP-996).

# The edge answers ApiVersions without a node; a leader reads only the range of kraft.version.
WHAT_A_VOTER_CAN: Final = ApiVersionsResponse(
    api_keys=[], supported_features=[SupportedFeatureKey(name=KRAFT_VERSION, min_version=0, max_version=1)]
)


@cache
def version_between(request: type[Message], level: str, other: str) -> int:
    """The newest version of the request that both releases have."""
    return min(VERSIONS[level][request], VERSIONS[other][request])


def can_say(request: VoteRequest, version: int) -> bool:
    """Whether this version can express the request: release 3.9 has no pre-votes."""
    return version >= PRE_VOTES or not request.topics[0].partitions[0].pre_vote


def through_codec(message: Message, version: int) -> Message:
    """Encodes and decodes the message, and returns the decoded one; Violation if it encodes to other bytes."""
    data = encode(message, version)
    read: Any = decode(type(message), version, data)
    if encode(read, version) != data:
        raise Violation("Codec", f"{message} of version {version} comes back as {read}")
    return read  # type: ignore[no-any-return]
