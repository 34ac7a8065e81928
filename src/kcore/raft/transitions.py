"""The states of a node and what leads from one to another: one table, which `quorum.py` obeys.

Source: QuorumState of 4.3.1 (with pre-votes, KIP-996) and of 3.9.1 (without).
"""

from enum import Enum


class StateName(Enum):
    """The states; the values are Kafka's names of them."""

    UNATTACHED = "Unattached"
    PROSPECTIVE = "Prospective"
    CANDIDATE = "Candidate"
    LEADER = "Leader"
    FOLLOWER = "Follower"
    RESIGNED = "Resigned"


class Event(Enum):
    """Why a node goes from one state to another."""

    HIGHER_EPOCH = "a higher epoch was seen"
    LEADER_FOUND = "the leader of this epoch, or of a higher one, was named"
    VOTE_GRANTED = "a vote was given"
    ELECTION_TIMEOUT = "the election time-out has passed"
    FETCH_TIMEOUT = "the leader has not answered a fetch for the fetch time-out"
    ELECTION_WON = "a majority has granted the vote"
    PRE_VOTE_WON = "a majority has granted the pre-vote, or a voter knows none"
    PRE_VOTE_LOST = "no majority can grant the pre-vote, or time is up"
    RESIGN = "shutdown, a request to resign, or no fetches from a majority (KAFKA-15489)"
    ONLY_VOTER = "there is no other voter to ask"
