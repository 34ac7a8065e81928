"""The table of a node's states and the events that lead from one to another; `quorum.py` enforces it.

Source: QuorumState of 4.3.1 (with pre-votes, KIP-996) and of 3.9.1 (without).
"""

from collections.abc import Mapping
from enum import Enum
from functools import cache
from typing import NamedTuple, TypeAlias

START = "(start)"
UNATTACHED = "Unattached"
PROSPECTIVE = "Prospective"
CANDIDATE = "Candidate"
LEADER = "Leader"
FOLLOWER = "Follower"
RESIGNED = "Resigned"
STATES = (UNATTACHED, PROSPECTIVE, CANDIDATE, LEADER, FOLLOWER, RESIGNED)


class Event(Enum):
    """The reason why a node changes its state."""

    INITIALIZE = "it starts from quorum-state and the log"
    HIGHER_EPOCH = "a higher epoch was seen"
    LEADER_FOUND = "the leader of this epoch or of a higher one was named"
    VOTE_GRANTED = "a vote was given"
    ELECTION_TIMEOUT = "the election time-out is over"
    FETCH_TIMEOUT = "the fetch time-out is over"
    PRE_VOTE_WON = "a majority has granted the pre-vote, or a voter has no pre-votes"
    PRE_VOTE_LOST = "no majority can grant the pre-vote, or its time is over"
    ELECTION_WON = "a majority has granted the vote"
    RESIGN = "it shuts down, or the state machine resigns"
    PROGRESS_TIMEOUT = "no majority has fetched for the progress time-out"
    ONLY_VOTER = "it starts, and there is no other voter"


class Transition(NamedTuple):
    """An event leads from the source state to the target state, for all nodes or for voters only."""

    source: str
    event: Event
    target: str
    voters_only: bool = False


Step: TypeAlias = tuple[str, Event, str]  # The key of a transition: source, event, target.

# Transitions that every release has.
_COMMON = (
    *(Transition(START, Event.INITIALIZE, target) for target in (UNATTACHED, FOLLOWER, RESIGNED)),
    *(Transition(source, Event.HIGHER_EPOCH, UNATTACHED) for source in STATES),
    *(Transition(source, Event.LEADER_FOUND, FOLLOWER) for source in STATES),
    Transition(UNATTACHED, Event.VOTE_GRANTED, UNATTACHED),
    Transition(CANDIDATE, Event.ELECTION_WON, LEADER, voters_only=True),
    Transition(LEADER, Event.RESIGN, RESIGNED),
    Transition(LEADER, Event.PROGRESS_TIMEOUT, RESIGNED),
)

# 4.x asks for pre-votes before it starts a new epoch (KIP-996).
_WITH_PRE_VOTE = (
    Transition(UNATTACHED, Event.ELECTION_TIMEOUT, PROSPECTIVE, voters_only=True),
    Transition(FOLLOWER, Event.FETCH_TIMEOUT, PROSPECTIVE, voters_only=True),
    Transition(CANDIDATE, Event.ELECTION_TIMEOUT, PROSPECTIVE, voters_only=True),
    Transition(RESIGNED, Event.ELECTION_TIMEOUT, UNATTACHED),
    Transition(PROSPECTIVE, Event.VOTE_GRANTED, PROSPECTIVE),
    Transition(PROSPECTIVE, Event.PRE_VOTE_WON, CANDIDATE, voters_only=True),
    Transition(PROSPECTIVE, Event.PRE_VOTE_LOST, UNATTACHED),
    Transition(PROSPECTIVE, Event.PRE_VOTE_LOST, FOLLOWER),
    *(
        Transition(source, Event.ONLY_VOTER, PROSPECTIVE, voters_only=True)
        for source in (UNATTACHED, FOLLOWER, RESIGNED)
    ),
)

# 3.9 starts a new epoch at once.
_WITHOUT_PRE_VOTE = (
    Transition(UNATTACHED, Event.ELECTION_TIMEOUT, CANDIDATE, voters_only=True),
    Transition(FOLLOWER, Event.FETCH_TIMEOUT, CANDIDATE, voters_only=True),
    Transition(CANDIDATE, Event.ELECTION_TIMEOUT, CANDIDATE, voters_only=True),
    Transition(RESIGNED, Event.ELECTION_TIMEOUT, CANDIDATE, voters_only=True),
    Transition(RESIGNED, Event.ELECTION_TIMEOUT, UNATTACHED),
    *(Transition(source, Event.ONLY_VOTER, CANDIDATE, voters_only=True) for source in (UNATTACHED, FOLLOWER, RESIGNED)),
)

# With `endless_elections`, as KIP-595 describes and no release does: a leader without followers starts elections.
_WITH_ENDLESS_ELECTIONS = (
    Transition(LEADER, Event.PROGRESS_TIMEOUT, CANDIDATE, voters_only=True),
    Transition(CANDIDATE, Event.ELECTION_TIMEOUT, CANDIDATE, voters_only=True),
)


def transitions(*, pre_vote: bool, endless_elections: bool = False) -> tuple[Transition, ...]:
    """All transitions: with `pre_vote` those of 4.x, without it those of 3.9."""
    states = set(STATES) if pre_vote else set(STATES) - {PROSPECTIVE}
    own = _WITH_PRE_VOTE if pre_vote else _WITHOUT_PRE_VOTE
    every = (*_COMMON, *own, *(_WITH_ENDLESS_ELECTIONS if endless_elections else ()))
    return tuple(dict.fromkeys(way for way in every if way.source in {START, *states}))


@cache  # All nodes of a process share the tables.
def by_step(*, pre_vote: bool, endless_elections: bool) -> Mapping[Step, Transition]:
    """The result of `transitions`, by source, event and target."""
    return {way[:3]: way for way in transitions(pre_vote=pre_vote, endless_elections=endless_elections)}


def as_text(ways: tuple[Transition, ...], taken: dict[Step, int] | None = None) -> str:
    """One line per transition, by source state; begins with the transition's count if `taken` is given."""
    lines = []
    for way in sorted(ways, key=lambda way: ((START, *STATES).index(way.source), way.event.name, way.target)):
        count = "" if taken is None else f"{taken.get(way[:3], 0):>10}  "
        who = " (voters)" if way.voters_only else ""
        lines.append(f"{count}{way.source:<11} -> {way.target:<11} {way.event.value}{who}")
    return "\n".join(lines) + "\n"
