"""Moves of replicas between the directories of this broker: `move_table.py`, carried out.

Source: ReplicaManager.alterReplicaLogDirs, handleLogDirFailure, ReplicaAlterLogDirsThread of 4.3.1. Otherwise than
there: a failed source is LOST, as the document has it, not assigned again; an assignment that the controller cannot
have seen is taken out of the queue; below 3.7-IV2, where nobody can be asked, a replica that has caught
up is promoted.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import Final

from kcore.broker.directories.assignments import AssignmentQueue, Placements
from kcore.broker.directories.move_table import Do, Event, State, next_step
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

_STORY: Final = 16  # Events of a move that are remembered, for the message of an illegal one.


@dataclass(slots=True)
class Move:
    """One partition's."""

    partition: TopicIdPartition
    source: Uuid | None  # None: there is no current replica.
    target: Uuid
    state: State = State.NONE
    is_asked: bool = False  # The controller has the target, or may have it: the catch-up does not interfere.
    ticket: int | None = None  # Of the assignment that is waited for.
    story: list[Event] = field(default_factory=list)


class Moves:
    """Those that are under way."""

    def __init__(self, queue: AssignmentQueue, placements: Placements, output: Callable[[Output], None]) -> None:
        self._queue, self._placements, self._output = queue, placements, output
        self._moves: dict[TopicIdPartition, Move] = {}
        self._tickets: dict[int, Move] = {}
        self._numbers = count(1)

    def __len__(self) -> int:
        return len(self._moves)

    def get(self, partition: TopicIdPartition) -> Move | None:
        """The move of that partition, if there is one."""
        return self._moves.get(partition)

    def begin(self, event: Event, partition: TopicIdPartition, source: Uuid | None, target: Uuid, now_ms: int) -> None:
        """With BEGIN, RESUME, RESUME_ACCEPTED or ADOPT; there is no move of the partition yet."""
        assert partition not in self._moves and source != target
        move = self._moves[partition] = Move(partition, source, target, is_asked=event is Event.RESUME_ACCEPTED)
        self._go(move, event, now_ms)

    def on_event(self, event: Event, partition: TopicIdPartition, now_ms: int) -> Move | None:
        """Returns the move that it happened to; None: it is over, and what it did comes too late."""
        move = self._moves.get(partition)
        if move is not None:
            if event is Event.CAUGHT_UP and move.state is State.COPYING and not self._queue.is_supported:
                event = Event.CAUGHT_UP_ALONE
            self._go(move, event, now_ms)
        return move

    def on_settled(self, ticket: int, outcome: Outcome, now_ms: int) -> None:
        """What became of an assignment that a move waits for; of one that was taken back nobody wants to know."""
        move = self._tickets.pop(ticket, None)
        if move is not None and move.ticket == ticket:
            self._go(move, Event.ACCEPT if outcome is Outcome.ACCEPTED else Event.UNASK, now_ms)

    def on_directory_failed(self, directory: Uuid, now_ms: int) -> None:
        """Of the moves out of it and into it."""
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
        for what in step.do:
            _DO[what](self, move, now_ms)

    def _create_future(self, move: Move, now_ms: int) -> None:
        self._output(CreateFuture(move.partition, move.target))

    def _start_copy(self, move: Move, now_ms: int) -> None:
        assert move.source is not None
        self._output(StartCopy(move.partition, move.source, move.target))

    def _stop_copy(self, move: Move, now_ms: int) -> None:
        self._output(StopCopy(move.partition))

    def _ask(self, move: Move, now_ms: int) -> None:
        move.is_asked, move.ticket = True, next(self._numbers)
        self._tickets[move.ticket] = move
        self._queue.enqueue(move.partition, move.target, "the future replica has caught up", now_ms, move.ticket)

    def _take_back(self, move: Move, now_ms: int) -> None:
        assert move.source is not None
        self._correct(move, move.source, "the move was given up", now_ms)

    def _lose(self, move: Move, now_ms: int) -> None:
        self._correct(move, LOST_UUID, "the directory that it moved out of has failed", now_ms)

    def _correct(self, move: Move, directory: Uuid, reason: str, now_ms: int) -> None:
        """Unless the controller cannot know of the target, and has the source."""
        is_cancelled = not move.is_asked or self._queue.cancel(move.partition, move.target)
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
