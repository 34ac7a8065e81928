"""Each step of small simulated clusters is an action of spec/AssignReplicasToDirs.tla; `ci/spec` checks that file."""

from collections.abc import Callable
from typing import Any

import pytest

from kcore.broker.directories import broker_directories
from kcore.broker.directories.assignments import AssignmentQueue
from kcore.broker.directories.placing import Action, Row
from kcore.controller.kraft.brokers import records
from planted_raft.patches import Patches
from seeds import seeds
from specifications.directories import NONE, THIS, UNASSIGNED, State, initial, is_online
from specifications.graphs import enumerated
from specifications.traces import INVARIANT
from specifications.worlds import FAULTS, run_traced

EVENTS = 2_500
COMMON = ("AddReplica", "Assign", "Create", "Crash", "DirectoryFails", "Publish", "Register", "Send", "Start")
MISSING = {2: {"DirectoryFails"}}  # The steps of COMMON that the cluster of a seed does not take.
DIRS, SPARES = frozenset({"d1", "d2"}), frozenset({"d3"})


@pytest.mark.parametrize("seed", seeds(2, 9))
def test_each_step_of_a_cluster_is_an_action(seed: int) -> None:
    outcome, trace = run_traced(seed, EVENTS)
    assert outcome.invariant is None, outcome.text
    assert trace.steps > 100 and {*COMMON} - trace.seen.keys() == MISSING.get(seed, set()), trace.seen


# Planted bugs.


def leaders_stay(patches: Patches) -> None:
    """A directory goes offline, and its replicas stay leaders."""
    patches.around(records, "directories_offline", lambda before, *given: before(*given)[-1:])


def requests_are_sent_once(patches: Patches) -> None:
    """The broker forgets assignments without an answer."""
    patches.put(AssignmentQueue, "_put_back", lambda before: lambda self, entries, tickets: None)


def online_directories_are_filled(patches: Patches) -> None:
    """The broker creates a replica anew although an offline directory may have it."""

    def decide(before: Callable[[Any], Row], case: Any) -> Row:
        row = before(case)
        is_withheld = row.actions == (Action.WITHHOLD,) and case.current.name == case.future.name == "NONE"
        return row._replace(actions=(Action.CREATE_SOMEWHERE, Action.ASSIGN)) if is_withheld else row

    patches.around(broker_directories, "decide", decide)


@pytest.mark.parametrize(
    ("plant", "seed", "faults"),
    [
        (leaders_stay, 0, ("lose_directory",)),
        (requests_are_sent_once, 2, FAULTS),
        (online_directories_are_filled, 1, ("lose_directory", "bounce")),
    ],
    ids=lambda given: getattr(given, "__name__", ""),
)
def test_a_planted_bug_is_no_action(plant: Callable[[Patches], None], seed: int, faults: tuple[str, ...]) -> None:
    patches = Patches()
    try:
        plant(patches)
        outcome, _trace = run_traced(seed, EVENTS, faults=faults)
    finally:
        patches.undo()
    assert outcome.invariant == INVARIANT, (outcome.invariant, outcome.text)


# The actions themselves.


def broken_properties(before: State, name: str, after: State) -> list[str]:
    """The safety properties of the specification that a step breaks."""
    is_moved = before.place in before.online and after.place not in (before.place, NONE)
    is_created = before.place == NONE != after.place and before.creating != NONE
    is_assigned = before.assigned != NONE and after.assigned not in (before.assigned, NONE, UNASSIGNED)
    requests = {message.directory for message in before.net if message.epoch == before.controller_epoch}
    properties = {
        "NoLeaderInOfflineDirectory": after.leader != THIS or is_online(after.assigned, after.registered),
        "NotImmediatelyPromoted": not is_moved or after.place in (before.accepted, before.seen),
        "OnlineDirectoriesAreNotFilled": not is_created or before.shadow == NONE,
        "EpochOfRequestingBroker": not is_assigned or after.assigned in requests,
    }
    return [f"{name} breaks {each}" for each, holds in properties.items() if not holds]


@pytest.mark.parametrize(("in_order", "steps"), [(True, 11_250), (False, 11_662)])
def test_the_actions_keep_the_properties(in_order: bool, steps: int) -> None:
    """`ci/spec` compares this graph with TLC's."""
    edges = enumerated(initial(DIRS, SPARES, 1, in_order=in_order), DIRS, SPARES)
    assert len(edges) == steps
    assert not [text for edge in edges for text in broken_properties(*edge)]
