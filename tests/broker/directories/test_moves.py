"""The move of a replica between directories: each row of the table, a crash and a failed disk at each step."""

from collections.abc import Callable

import pytest

from broker.directories.placements import A, B, C, p, uuid
from broker.directories.world import World
from kcore.broker.directories.moves import TRANSITIONS, Do, Event, State, next_step
from kcore.broker.directories.outputs import CreateFuture, DropSource, Promote, StartCopy, StopCopy
from kcore.metadata.table.directory_table import LOST_UUID
from kcore.protocol_errors import Errors

P = p(0)
RECORDS = 3


def a_world() -> World:
    """One replica in A, with records, and the controller knows; B and C are empty."""
    world = World([A, B, C], [P])
    world.heal()
    for _ in range(RECORDS):
        world.append(P)
    assert world.serving(P) == world.controller[P] == A
    return world


def caught_up(world: World) -> None:
    for _ in range(RECORDS + 1):
        world.copy(P)
    world.drain()


def asked_for(world: World) -> None:
    world.send()
    assert world.request is not None


# The steps of a move from A to B.
STEPS: dict[str, Callable[[World], object]] = {
    "asked to move": lambda world: world.alter(P, B),
    "future replica made": lambda world: world.drain(1),
    "copy begun": lambda world: world.drain(),
    "half copied": lambda world: world.copy(P),
    "caught up, queued": caught_up,
    "request sent": asked_for,
    "controller wrote it": lambda world: world.write(),
    "image has it": lambda world: (world.publish(), world.drain()),
    "behind again": lambda world: world.append(P),
    "caught up again": lambda world: world.copy(P),
    "copy stopped": lambda world: world.drain(1),
    "renamed": lambda world: world.drain(1),
    "source deleted": lambda world: world.drain(),
}
NAMES = [*STEPS]
ACCEPTED = NAMES.index("controller wrote it")
SENT = NAMES.index("request sent")
ASKED = NAMES.index("caught up, queued")
PROMOTING = NAMES.index("caught up again")
RENAMED = NAMES.index("renamed")


def at_step(count: int) -> World:
    """A world in which that many steps have been taken."""
    world = a_world()
    for name in NAMES[:count]:
        STEPS[name](world)
    return world


AT_EACH_STEP = pytest.mark.parametrize("count", range(len(NAMES) + 1), ids=["before", *NAMES])


@pytest.mark.covers("KIP-858 move 1", "KIP-858 move 2", "KIP-858 move 3")
def test_a_replica_moves_once_the_controller_has_agreed_and_it_has_caught_up_again() -> None:
    world = at_step(ASKED)
    assert world.copying == {P: (A, B)} and world.broker.queue.queued == 0
    caught_up(world)
    assert world.broker.queue.queued == 1
    for _ in range(3):  # It is still the future replica, and goes on copying.
        world.append(P)
        world.copy(P)
    assert world.serving(P) == A and world.disks[B].future[P] == world.acknowledged[P]
    world.send()
    world.write()
    world.drain()
    assert world.controller[P] == B and world.serving(P) == A
    world.copy(P)
    world.drain()
    assert world.serving(P) == B
    assert P not in world.disks[A].current and P not in world.disks[B].future
    world.heal()
    world.check_healed()


def test_the_outputs_of_a_move_come_in_this_order() -> None:
    world = a_world()
    world.alter(P, B)
    assert world.todo == [CreateFuture(P, B), StartCopy(P, A, B)]
    caught_up(world)
    world.send()
    world.write()
    world.copy(P)
    assert world.todo == [StopCopy(P), Promote(P, A, B)]
    world.drain(2)
    assert world.todo == [DropSource(P, A)]


@AT_EACH_STEP
def test_a_crash_at_each_step_loses_nothing_and_the_move_goes_on(count: int) -> None:
    world = at_step(count)
    world.restart()
    world.check()
    world.heal()
    world.check_healed()
    assert world.serving(P) == (A if count < 2 else B)  # Before there is a future replica there is no move.


@AT_EACH_STEP
@pytest.mark.covers("KIP-858 move failure of the target")
def test_the_target_fails_at_each_step(count: int) -> None:
    world = at_step(count)
    world.fail(B)
    world.heal()
    world.check_healed()
    if count <= RENAMED:
        assert world.serving(P) == A  # And the controller got an assignment to the source, if it had the target.
    else:
        assert world.serving(P) is None and world.controller[P] == B


@AT_EACH_STEP
@pytest.mark.covers("C10", "KIP-858 move failure of the source")
def test_a_move_survives_a_failure_of_the_source_at_each_step(count: int) -> None:
    """The replica is assigned LOST if the controller may have the target: it is offline.

    If the broker reads the target in the log after the failure only, it assigns the failed source in place of LOST.
    """
    world = at_step(count)
    world.fail(A)
    world.heal()
    world.check_healed()
    if count <= PROMOTING:
        assert world.controller[P] == (LOST_UUID if count > SENT + 1 else A)
        assert world.serving(P) is None
    else:
        assert world.serving(P) == B


@AT_EACH_STEP
def test_another_directory_is_asked_for_at_each_step(count: int) -> None:
    world = at_step(count)
    assert world.alter(P, C) is Errors.NONE
    world.heal()
    world.check_healed()
    assert world.serving(P) == C


@AT_EACH_STEP
@pytest.mark.covers("KIP-858 cancelled locally")
def test_a_move_is_taken_back_at_each_step(count: int) -> None:
    world = at_step(count)
    assert world.alter(P, A) is Errors.NONE
    world.heal()
    world.check_healed()
    assert world.serving(P) == A


@pytest.mark.covers("KIP-858 cancelled locally")
def test_what_is_still_queued_is_cancelled_without_a_word_to_the_controller() -> None:
    world = at_step(ASKED + 1)
    world.fail(B)
    assert world.broker.queue.queued == 0
    world = at_step(SENT + 1)
    world.fail(B)
    assert world.broker.queue.queued == 2  # B is in flight, A is to follow.


@AT_EACH_STEP
@pytest.mark.parametrize("lost", ["request", "answer"])
def test_the_controllers_answer_is_lost_or_late_at_each_step(count: int, lost: str) -> None:
    world = at_step(count)
    for _ in range(3):
        world.append(P)
        world.copy(P)
        world.copy(P)
        world.send()
        world.write(is_lost=True) if lost == "answer" else world.lose()
        world.check()
    assert world.serving(P) == (A if count <= ACCEPTED else B)
    world.heal()
    world.check_healed()
    assert world.serving(P) == (A if count == 0 else B)


@AT_EACH_STEP
def test_the_replica_is_deleted_at_each_step(count: int) -> None:
    world = at_step(count)
    del world.controller[P]
    world.heal()
    assert world.broker.queue.queued == 0 and len(world.broker.moves) == 0
    assert not any(disk.current or disk.future for disk in world.disks.values())


@AT_EACH_STEP
@pytest.mark.covers("C11")
def test_a_crash_and_the_sources_disk_does_not_come_back(count: int) -> None:
    """The future replica takes its place where the controller has it; nothing is made elsewhere otherwise."""
    world = at_step(count)
    world.disks[A].has_failed = True
    world.restart()
    world.heal()
    world.check_healed()
    has_moved = world.controller[P] == B
    assert has_moved == (count > ACCEPTED)
    assert world.serving(P) == (B if has_moved else None)
    assert P not in world.disks[C].current
    world.repair(A)
    world.heal()
    world.check_healed()
    assert world.serving(P) == (A if count < 2 else B)


@AT_EACH_STEP
def test_a_crash_and_an_empty_disk_in_the_sources_place(count: int) -> None:
    world = at_step(count)
    world.disks[A].has_failed = True
    world.replace(A, uuid(990))
    world.heal()
    world.check_healed()
    assert world.serving(P) is not None


@AT_EACH_STEP
@pytest.mark.parametrize("second", [A, B], ids=["source back", "target back"])
def test_both_disks_fail_at_each_step_and_one_comes_back(count: int, second: object) -> None:
    world = at_step(count)
    world.fail(A)
    world.drain(1)
    world.fail(B)
    world.heal()
    world.check_healed()
    world.repair(A if second == A else B)
    world.heal()
    world.check_healed()
    world.repair(B if second == A else A)
    world.heal()
    world.check_healed()
    assert world.serving(P) is not None


def test_below_3_7_iv2_a_replica_that_has_caught_up_is_promoted_unasked() -> None:
    world = a_world()
    world.broker.queue.is_supported = False
    world.controller[P] = B  # No controller could refuse it.
    world.alter(P, B)
    caught_up(world)
    world.drain()
    assert world.serving(P) == B and world.broker.queue.queued == 0


def test_a_promotion_that_comes_too_late_waits_for_the_copy() -> None:
    world = at_step(ACCEPTED + 1)
    world.copy(P)
    assert isinstance(world.todo[-1], Promote)
    world.disks[A].current[P] += 1  # Appended all the same.
    world.acknowledged[P] += 1
    world.drain()
    assert world.serving(P) == A and world.copying == {P: (A, B)}
    world.heal()
    world.check_healed()
    assert world.serving(P) == B


@pytest.mark.parametrize(
    ("state", "event"), TRANSITIONS, ids=lambda part: part.name if isinstance(part, State | Event) else ""
)
def test_each_row(state: State, event: Event) -> None:
    """The rules that hold in every state."""
    step = TRANSITIONS[state, event]
    goes_on = {State.COPYING, State.ASKING, State.ACCEPTED}
    assert (Do.STOP_COPY in step.do) == (state in goes_on and step.state not in goes_on)
    assert (Do.START_COPY in step.do) == (step.state in goes_on and state not in goes_on)
    assert (Do.PROMOTE in step.do) == (
        event in (Event.CAUGHT_UP, Event.CAUGHT_UP_ALONE, Event.ADOPT)
        and bool(step.do)
        and step.state in (State.PROMOTING, State.PROMOTING_ALONE)
    )
    if Do.DELETE_FUTURE in step.do:
        assert event in (Event.CANCEL, Event.STOP)
    if Do.DROP_SOURCE in step.do:
        assert event is Event.PROMOTED
    if event is Event.CANCEL:
        assert (Do.TAKE_BACK in step.do) == (state is not State.COPYING)


def test_what_can_happen_at_any_time_has_a_row_in_each_state() -> None:
    for state in set(State) - {State.NONE}:
        for event in (Event.TARGET_FAILED, Event.STOP):
            assert next_step(state, event, "").state is State.NONE
    for state in set(State) - {State.NONE, State.PROMOTING_ALONE}:
        next_step(state, Event.SOURCE_FAILED, "")
        next_step(state, Event.CAUGHT_UP, "")


def test_an_illegal_event_raises_with_its_history() -> None:
    with pytest.raises(AssertionError, match="renamed in the state copying: the story"):
        next_step(State.COPYING, Event.PROMOTED, "the story")
