"""Moves replicas between the directories of this broker, by a table of states and events (KIP-113, KIP-858).

Source: ReplicaManager.alterReplicaLogDirs, handleLogDirFailure, ReplicaAlterLogDirsThread of 4.3.1. Three departures. A
failed source is assigned LOST, as KIP-858 describes. An assignment that was not sent yet is removed from the queue.
Below metadata.version 3.7-IV2 a replica that has caught up is promoted without the controller.

The source is the directory of the current replica, the target is the directory of the future replica. A move ends in
State.NONE, with the replica in either directory. A crash is not an event: `found.py` chooses the log at the next start.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from itertools import count
from typing import Final, NamedTuple

from kcore.broker.directories.assignments import AssignmentQueue, Placements
from kcore.broker.directories.outputs import (
    CreateFuture,
    DeleteFuture,
    DropSource,
    Outcome,
    Output,
    Promote,
    StartCopy,
    StopCopy,
    TopicIdPartition,
)
from kcore.metadata.table.directory_table import LOST_UUID
from kcore.types import Uuid


class State(Enum):
    """The state of the move of one partition's replica."""

    NONE = "none"  # There is no move.
    COPYING = "copying"  # The copy has not caught up since the last assignment; the controller has the source.
    ASKING = "asking"  # The assignment to the target is queued or sent; the copying continues.
    ACCEPTED = "accepted"  # The controller has the target; the copying continues until it has caught up again.
    PROMOTING = "promoting"  # The future replica is being renamed.
    PROMOTING_ALONE = "promoting, without a source"  # The source's directory failed, or there was no source.


class Event(Enum):
    """An event that changes the state of a move."""

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
    """The result of an event: the next state, and the operations to perform."""

    state: State
    do: tuple[Do, ...] = ()


_PROMOTE: Final = Step(State.PROMOTING, (Do.STOP_COPY, Do.PROMOTE))
_STOPPED: Final = Step(State.NONE, (Do.STOP_COPY, Do.DELETE_FUTURE))
_LEFT: Final = Step(State.NONE, (Do.STOP_COPY,))  # The files of a failed directory are not touched.

# When the source fails, the future replica may lack records. It is kept nevertheless, as the next start may need it.
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
    """The step for a state and an event. An illegal event raises AssertionError with `story`, the move's history."""
    step = TRANSITIONS.get((state, event))
    assert step is not None, f"{event.value} in the state {state.value}: {story}"
    return step


_STORY: Final = 16  # The number of a move's last events that the message of an illegal event lists.


@dataclass(slots=True)
class Move:
    """The move of one partition's replica."""

    partition: TopicIdPartition
    source: Uuid | None  # None if there is no current replica.
    target: Uuid
    state: State = State.NONE
    is_requested: bool = False  # The controller may have the target; `catch_up` then takes no action for the replica.
    ticket: int | None = None  # The ticket of the pending assignment.
    story: list[Event] = field(default_factory=list)  # The last events.


class Moves:
    """The moves in progress."""

    def __init__(self, queue: AssignmentQueue, placements: Placements, output: Callable[[Output], None]) -> None:
        self._queue, self._placements, self._output = queue, placements, output
        self._moves: dict[TopicIdPartition, Move] = {}
        self._tickets: dict[int, Move] = {}
        self._numbers = count(1)

    def __len__(self) -> int:
        return len(self._moves)

    def get(self, partition: TopicIdPartition) -> Move | None:
        """The move of the partition; None if it is not moving."""
        return self._moves.get(partition)

    def begin(self, event: Event, partition: TopicIdPartition, source: Uuid | None, target: Uuid, now_ms: int) -> None:
        """Starts a move with BEGIN, RESUME, RESUME_ACCEPTED or ADOPT; the partition must not have one."""
        assert partition not in self._moves and source != target
        move = self._moves[partition] = Move(partition, source, target, is_requested=event is Event.RESUME_ACCEPTED)
        self._go(move, event, now_ms)

    def on_event(self, event: Event, partition: TopicIdPartition, now_ms: int) -> Move | None:
        """Applies the event to the partition's move, and returns the move; None if the move has already ended."""
        move = self._moves.get(partition)
        if move is not None:
            if event is Event.CAUGHT_UP and move.state is State.COPYING and not self._queue.is_supported:
                event = Event.CAUGHT_UP_ALONE
            self._go(move, event, now_ms)
        return move

    def on_settled(self, ticket: int, outcome: Outcome, now_ms: int) -> None:
        """Called with the result of a move's assignment; ignored if the move has withdrawn the assignment."""
        move = self._tickets.pop(ticket, None)
        if move is not None and move.ticket == ticket:
            self._go(move, Event.ACCEPT if outcome is Outcome.ACCEPTED else Event.UNASK, now_ms)

    def on_directory_failed(self, directory: Uuid, now_ms: int) -> None:
        """Applies the failure of a directory to all moves into it and out of it."""
        for move in [*self._moves.values()]:
            if move.target == directory:
                self._go(move, Event.TARGET_FAILED, now_ms)
            elif move.source == directory:
                self._go(move, Event.SOURCE_FAILED, now_ms)

    def _go(self, move: Move, event: Event, now_ms: int) -> None:
        move.story = [*move.story[1 - _STORY :], event]
        step = next_step(move.state, event, move)
        if move.state is State.ASKING and step.state is not State.ASKING:
            self._tickets.pop(-1 if move.ticket is None else move.ticket, None)
            move.ticket = None
        move.state = step.state
        if step.state is State.NONE:
            del self._moves[move.partition]
        for operation in step.do:
            _DO[operation](self, move, now_ms)

    def _create_future(self, move: Move, now_ms: int) -> None:
        self._output(CreateFuture(move.partition, move.target))

    def _start_copy(self, move: Move, now_ms: int) -> None:
        assert move.source is not None
        self._output(StartCopy(move.partition, move.source, move.target))

    def _stop_copy(self, move: Move, now_ms: int) -> None:
        self._output(StopCopy(move.partition))

    def _ask(self, move: Move, now_ms: int) -> None:
        move.is_requested, move.ticket = True, next(self._numbers)
        self._tickets[move.ticket] = move
        self._queue.enqueue(move.partition, move.target, "the future replica has caught up", now_ms, move.ticket)

    def _take_back(self, move: Move, now_ms: int) -> None:
        assert move.source is not None
        self._correct(move, move.source, "the move was given up", now_ms)

    def _lose(self, move: Move, now_ms: int) -> None:
        self._correct(move, LOST_UUID, "the move's source directory has failed", now_ms)

    def _correct(self, move: Move, directory: Uuid, reason: str, now_ms: int) -> None:
        """Queues the assignment of the replica to `directory`.

        Queues nothing if the target was never sent to the controller and the image still has the replica in the source.
        """
        is_cancelled = not move.is_requested or self._queue.cancel(move.partition, move.target)
        if not is_cancelled or self._placements.directories_of([move.partition])[0] != move.source:
            self._queue.enqueue(move.partition, directory, reason, now_ms)

    def _promote(self, move: Move, now_ms: int) -> None:
        self._output(Promote(move.partition, move.source, move.target))

    def _drop_source(self, move: Move, now_ms: int) -> None:
        assert move.source is not None
        self._output(DropSource(move.partition, move.source))

    def _delete_future(self, move: Move, now_ms: int) -> None:
        self._output(DeleteFuture(move.partition, move.target))


_DO: Final[dict[Do, Callable[[Moves, Move, int], None]]] = {
    Do.CREATE_FUTURE: Moves._create_future,
    Do.START_COPY: Moves._start_copy,
    Do.STOP_COPY: Moves._stop_copy,
    Do.ASK: Moves._ask,
    Do.TAKE_BACK: Moves._take_back,
    Do.LOSE: Moves._lose,
    Do.PROMOTE: Moves._promote,
    Do.DROP_SOURCE: Moves._drop_source,
    Do.DELETE_FUTURE: Moves._delete_future,
}
