"""Counts votes and pre-votes. Source: EpochElection."""

from collections.abc import Iterable

from kcore.raft.membership.replicas import ReplicaKey


class Election:
    """Which voters have granted or rejected a vote or a pre-vote; the node itself has granted its own."""

    __slots__ = ("granted", "majority", "rejected", "voters")

    def __init__(self, voters: Iterable[ReplicaKey], local_id: int) -> None:
        self.voters = {voter.id: voter for voter in voters}
        self.majority = len(self.voters) // 2 + 1
        self.granted: set[int] = {local_id} & self.voters.keys()
        self.rejected: set[int] = set()

    def record(self, voter_id: int, granted: bool) -> None:
        """Counts a voter's last response; ignores nodes that are not voters."""
        if voter_id in self.voters:
            (self.granted if granted else self.rejected).add(voter_id)
            (self.rejected if granted else self.granted).discard(voter_id)

    @property
    def is_won(self) -> bool:
        return len(self.granted) >= self.majority

    @property
    def is_lost(self) -> bool:
        """Whether a majority is impossible, even if all remaining voters grant their votes."""
        return len(self.voters) - len(self.rejected) < self.majority

    @property
    def unrecorded(self) -> list[ReplicaKey]:
        """The voters that have not responded."""
        recorded = self.granted | self.rejected
        return [key for voter_id, key in self.voters.items() if voter_id not in recorded]

    @property
    def granting_voters(self) -> tuple[ReplicaKey, ...]:
        """The voters that have granted their votes, for the LeaderChangeMessage."""
        return tuple(self.voters[voter_id] for voter_id in sorted(self.granted))
