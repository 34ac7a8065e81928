"""The move of a replica to another directory of its broker: its states and events, as data (KIP-113, KIP-858).

The source is the directory of the current replica, the target that of the future replica. A move ends in State.NONE,
with the replica in either directory. A crash is not an event: `found.py` sorts out the logs at the next start.
"""

from enum import Enum
from typing import Final, NamedTuple


class State(Enum):
    """How far the move of one partition's replica is."""

    NONE = "none"  # There is no move.
    COPYING = "copying"  # The copy has not caught up since the last assignment; the controller has the source.
    ASKING = "asking"  # The assignment to the target is queued or sent; the copy goes on.
    ACCEPTED = "accepted"  # The controller has the target; the copy goes on until it has caught up again.
    PROMOTING = "promoting"  # The future replica is being renamed.
    PROMOTING_ALONE = "promoting, without a source"  # The source's directory failed, or there was no source.


class Event(Enum):
    """What happens to a move."""

    BEGIN = "AlterReplicaLogDirs"
    RESUME = "a future replica was found"  # The controller has a directory other than the target.
    RESUME_ACCEPTED = "a future replica was found where the controller has it"
    ADOPT = "a future replica was found, and no current one"
    CAUGHT_UP = "caught up"
    CAUGHT_UP_ALONE = "caught up, and the metadata.version knows no directories"
    ACCEPT = "the controller has accepted the target"
    UNASK = "the assignment was superseded or dropped"
    CANCEL = "AlterReplicaLogDirs to another directory"
    PROMOTED = "renamed"
    BEHIND = "not caught up any more"
    SOURCE_FAILED = "the source's directory failed"
    TARGET_FAILED = "the target's directory failed"
    STOP = "the replica is deleted"


class Do(Enum):
    """An operation of a step; a step's operations are performed in order."""

    CREATE_FUTURE = "create the future replica"
    START_COPY = "start copying"
    STOP_COPY = "stop copying"
    ASK = "ask the controller for the target"
    TAKE_BACK = "take the target back: cancel it in the queue, or assign the source if the controller may know"
    LOSE = "cancel the target in the queue, or assign LOST if the controller may know"
    PROMOTE = "rename the future replica to the current one's name"
    DROP_SOURCE = "delete the source's log"
    DELETE_FUTURE = "delete the future replica"


class Step(NamedTuple):
    """The next state, and the operations."""

    state: State
    do: tuple[Do, ...] = ()


_PROMOTE: Final = Step(State.PROMOTING, (Do.STOP_COPY, Do.PROMOTE))
_STOPPED: Final = Step(State.NONE, (Do.STOP_COPY, Do.DELETE_FUTURE))
_LEFT: Final = Step(State.NONE, (Do.STOP_COPY,))  # The files of a failed directory are not touched.

# When the source fails, the future replica may lack records. It is kept: the next start may need it.
TRANSITIONS: Final[dict[tuple[State, Event], Step]] = {
    (State.NONE, Event.BEGIN): Step(State.COPYING, (Do.CREATE_FUTURE, Do.START_COPY)),
    (State.NONE, Event.RESUME): Step(State.COPYING, (Do.START_COPY,)),
    (State.NONE, Event.RESUME_ACCEPTED): Step(State.ACCEPTED, (Do.START_COPY,)),
    (State.NONE, Event.ADOPT): Step(State.PROMOTING_ALONE, (Do.PROMOTE,)),
    (State.COPYING, Event.CAUGHT_UP): Step(State.ASKING, (Do.ASK,)),
    (State.COPYING, Event.CAUGHT_UP_ALONE): _PROMOTE,
    (State.COPYING, Event.CANCEL): _STOPPED,
    (State.COPYING, Event.SOURCE_FAILED): _LEFT,
    (State.COPYING, Event.TARGET_FAILED): _LEFT,
    (State.COPYING, Event.STOP): _STOPPED,
    (State.ASKING, Event.CAUGHT_UP): Step(State.ASKING),
    (State.ASKING, Event.ACCEPT): Step(State.ACCEPTED),
    (State.ASKING, Event.UNASK): Step(State.COPYING),
    (State.ASKING, Event.CANCEL): Step(State.NONE, (Do.STOP_COPY, Do.TAKE_BACK, Do.DELETE_FUTURE)),
    (State.ASKING, Event.SOURCE_FAILED): Step(State.NONE, (Do.STOP_COPY, Do.LOSE)),
    (State.ASKING, Event.TARGET_FAILED): Step(State.NONE, (Do.STOP_COPY, Do.TAKE_BACK)),
    (State.ASKING, Event.STOP): _STOPPED,
    (State.ACCEPTED, Event.CAUGHT_UP): _PROMOTE,
    (State.ACCEPTED, Event.CANCEL): Step(State.NONE, (Do.STOP_COPY, Do.TAKE_BACK, Do.DELETE_FUTURE)),
    (State.ACCEPTED, Event.SOURCE_FAILED): Step(State.NONE, (Do.STOP_COPY, Do.LOSE)),
    (State.ACCEPTED, Event.TARGET_FAILED): Step(State.NONE, (Do.STOP_COPY, Do.TAKE_BACK)),
    (State.ACCEPTED, Event.STOP): _STOPPED,
    (State.PROMOTING, Event.PROMOTED): Step(State.NONE, (Do.DROP_SOURCE,)),
    (State.PROMOTING, Event.BEHIND): Step(State.ACCEPTED, (Do.START_COPY,)),
    (State.PROMOTING, Event.CAUGHT_UP): Step(State.PROMOTING),
    (State.PROMOTING, Event.SOURCE_FAILED): Step(State.PROMOTING_ALONE),
    (State.PROMOTING, Event.TARGET_FAILED): Step(State.NONE, (Do.TAKE_BACK,)),
    (State.PROMOTING, Event.STOP): Step(State.NONE, (Do.DELETE_FUTURE,)),
    # Both logs ended at the same offset when the renaming began, so the promoted log has all records.
    (State.PROMOTING_ALONE, Event.PROMOTED): Step(State.NONE),
    (State.PROMOTING_ALONE, Event.BEHIND): Step(State.NONE, (Do.LOSE,)),
    (State.PROMOTING_ALONE, Event.CAUGHT_UP): Step(State.PROMOTING_ALONE),
    (State.PROMOTING_ALONE, Event.TARGET_FAILED): Step(State.NONE),
    (State.PROMOTING_ALONE, Event.STOP): Step(State.NONE, (Do.DELETE_FUTURE,)),
}


def next_step(state: State, event: Event, story: object) -> Step:
    """The step for a state and an event; AssertionError with the move's history for an illegal event."""
    step = TRANSITIONS.get((state, event))
    assert step is not None, f"{event.value} in the state {state.value}: {story}"
    return step
