"""The voter set and its history in the log (KIP-853).

A voter set is valid as soon as it is written, even before its commit; a truncation reverts it. Sources: VoterSet,
VoterSetHistory, TreeMapLogHistory, KRaftControlRecordStateMachine.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Generic, Self, TypeVar

from kcore.raft.membership.replicas import NO_DIRECTORY, Address, ReplicaKey, Voter
from kcore.schema.control_records import Endpoint, KRaftVersionFeature, VotersRecord, VotersRecordVoter

T = TypeVar("T")
MAX_KRAFT_VERSION: Final = 1  # The newest kraft.version; from version 1 on the log holds the voters (KIP-853).


@dataclass(frozen=True, slots=True)
class VoterSet:
    """Voters by id, in the order of their record or configuration."""

    voters: Mapping[int, Voter]

    @classmethod
    def of(cls, voters: Iterable[Voter]) -> Self:
        return cls({voter.key.id: voter for voter in voters})

    @classmethod
    def from_record(cls, record: VotersRecord) -> Self:
        return cls.of(
            Voter(
                ReplicaKey(voter.voter_id, voter.voter_directory_id),
                {endpoint.name: Address(endpoint.host, endpoint.port) for endpoint in voter.endpoints},
                voter.kraft_version_feature.min_supported_version,
                voter.kraft_version_feature.max_supported_version,
            )
            for voter in record.voters
        )

    def to_record(self) -> VotersRecord:
        return VotersRecord(
            version=0,
            voters=[
                VotersRecordVoter(
                    voter_id=voter.key.id,
                    voter_directory_id=voter.key.directory_id,
                    endpoints=[
                        Endpoint(name=name, host=address.host, port=address.port)
                        for name, address in voter.endpoints.items()
                    ],
                    kraft_version_feature=KRaftVersionFeature(
                        min_supported_version=voter.min_kraft_version, max_supported_version=voter.max_kraft_version
                    ),
                )
                for voter in self.voters.values()
            ],
        )

    def __len__(self) -> int:
        return len(self.voters)

    @property
    def ids(self) -> frozenset[int]:
        return frozenset(self.voters)

    @property
    def keys(self) -> list[ReplicaKey]:
        return [voter.key for voter in self.voters.values()]

    @property
    def majority(self) -> int:
        """The smallest number of voters such that any two groups of that size share a voter."""
        return len(self.voters) // 2 + 1

    def is_voter(self, key: ReplicaKey) -> bool:
        """Whether the set has this replica; for a voter without a known directory only the ids are compared."""
        voter = self.voters.get(key.id)
        return voter is not None and voter.key.directory_id in (NO_DIRECTORY, key.directory_id)

    def is_only_voter(self, key: ReplicaKey) -> bool:
        return len(self.voters) == 1 and self.is_voter(key)

    def address(self, voter_id: int, listener: str) -> Address | None:
        """The address of a voter's listener; None if the voter or the listener is unknown."""
        voter = self.voters.get(voter_id)
        return voter.endpoints.get(listener) if voter else None

    def with_voter(self, voter: Voter) -> "VoterSet | None":
        """The set with one more voter; None if the set has a voter of that id already."""
        return None if voter.key.id in self.voters else VoterSet({**self.voters, voter.key.id: voter})

    def without_voter(self, key: ReplicaKey) -> "VoterSet | None":
        """The set without the voter `key`; None if `key` is not a voter, or is the only voter."""
        voter = self.voters.get(key.id)
        if voter is None or voter.key != key or len(self.voters) == 1:
            return None
        return VoterSet({voter_id: other for voter_id, other in self.voters.items() if voter_id != key.id})

    def with_updated(self, voter: Voter, *, any_directory: bool = False) -> "VoterSet | None":
        """The set with this voter's new endpoints and versions; None if it has no voter of that id and directory."""
        known = voter.key.id in self.voters if any_directory else self.is_voter(voter.key)
        return VoterSet({**self.voters, voter.key.id: voter}) if known else None

    def supports(self, kraft_version: int) -> bool:
        return all(
            voter.min_kraft_version <= kraft_version <= voter.max_kraft_version for voter in self.voters.values()
        )

    def has_overlapping_majority(self, other: "VoterSet") -> bool:
        """Whether every majority of one set shares a replica (id and directory) with every majority of the other.

        Kafka's VoterSet.hasOverlappingMajority allows a change that adds one replica and removes another. Then two
        majorities may have no common replica: {1, 3} of {1, 2, 3} and {2, 4} of {1, 2, 4}. The same happens if a
        voter's directory is replaced.
        """
        common = len(set(self.keys) & set(other.keys))
        # Each majority first takes the replicas of its own set only, then needs common ones. Two majorities can be
        # disjoint if there are enough common replicas for both.
        needed = sum(max(0, voters.majority - (len(voters) - common)) for voters in (self, other))
        return needed > common


class LogHistory(Generic[T]):
    """Values by the offset of the record that set them, ascending; `last` is the latest or, at first, `configured`."""

    def __init__(self, configured: T) -> None:
        self.offsets: list[int] = []
        self.values: list[T] = []
        self.last = self._configured = configured

    def add(self, offset: int, value: T) -> None:
        """Sets the value from `offset` on; drops earlier entries at this offset or above."""
        self.truncate_new_entries(offset)
        self.offsets.append(offset)
        self.values.append(value)
        self.last = value

    def at(self, offset: int) -> T | None:
        """The value after the record at `offset`; None if no record up to `offset` has set a value."""
        found = bisect_right(self.offsets, offset)
        return self.values[found - 1] if found else None

    def truncate_new_entries(self, end_offset: int) -> None:
        """Drops values from `end_offset` on: the log was truncated there."""
        while self.offsets and self.offsets[-1] >= end_offset:
            self.offsets.pop()
            self.values.pop()
        self.last = self.values[-1] if self.values else self._configured

    def truncate_old_entries(self, start_offset: int) -> None:
        """Drops values that a later value replaced before `start_offset`, where the log begins now.

        If a record at that offset sets a value, keeps the value before it as well: a truncation of that record reverts
        to it. Kafka 4.3.1 reverts to its configured voters, or to none (TreeMapLogHistory.truncateOldEntries).
        """
        gone = max(bisect_left(self.offsets, start_offset) - 1, 0)
        del self.offsets[:gone], self.values[:gone]

    def clear(self) -> None:
        self.offsets.clear()
        self.values.clear()
        self.last = self._configured


class VoterHistory:
    """The voter sets and kraft.versions of a log, by offset; before the first, the configured voters and version 0.

    Values from a snapshot are at the snapshot's last offset: -1 for the bootstrap snapshot.
    """

    def __init__(self, static_voters: VoterSet) -> None:
        self.static_voters = static_voters
        self.voters = LogHistory(static_voters)
        self.kraft_versions = LogHistory(0)

    @property
    def last_voters(self) -> VoterSet:
        return self.voters.last

    @property
    def last_voters_offset(self) -> int | None:
        """The offset of the record that set the voters; None while the configured voters are valid."""
        return self.voters.offsets[-1] if self.voters.offsets else None

    @property
    def kraft_version(self) -> int:
        return self.kraft_versions.last

    def voters_at(self, offset: int) -> VoterSet | None:
        """The voters after the record at `offset`; None if the configured voters are valid there."""
        return self.voters.at(offset)

    def kraft_version_at(self, offset: int) -> int:
        return self.kraft_versions.at(offset) or 0

    def truncate_new_entries(self, end_offset: int) -> None:
        self.voters.truncate_new_entries(end_offset)
        self.kraft_versions.truncate_new_entries(end_offset)

    def truncate_old_entries(self, start_offset: int) -> None:
        self.voters.truncate_old_entries(start_offset)
        self.kraft_versions.truncate_old_entries(start_offset)

    def replace(self, other: "VoterHistory") -> None:
        """Takes the values of `other`; keeps the static voters."""
        self.voters, self.kraft_versions = other.voters, other.kraft_versions

    def clear(self) -> None:
        self.voters.clear()
        self.kraft_versions.clear()
