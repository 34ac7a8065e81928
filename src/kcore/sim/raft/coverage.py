"""Counts the events of a world by name, and lists events that a campaign should have seen but has not."""

from collections import Counter
from collections.abc import Collection, Iterable
from typing import Any, Final

from kcore.raft.transitions import transitions
from kcore.sim.raft.answers import name_of
from kcore.sim.raft.crash_points import MOMENTS
from kcore.sim.raft.options import FAULTS
from kcore.sim.raft.world import World

FAULT: Final = "fault: "
TRAP: Final = "trap: "


def coverage_of(world: World) -> dict[str, int]:
    """State transitions, faults, kinds of answers, and other counted events of the world."""
    found = {key if isinstance(key, str) else f"answer: {name_of(key)}": n for key, n in world.seen.items()}
    taken: Counter[Any] = world.taken.copy()
    for machine in world.machines:
        if machine.is_up:
            taken.update(machine.node.quorum.taken)
    found |= {_way(*way): n for way, n in taken.items()}
    return dict(sorted(found.items()))


def _way(source: str, event: Any, target: str) -> str:
    return f"way: {source} to {target}, {event.value}"


def counted(worlds: Iterable[Iterable[tuple[str, int]]]) -> tuple[Counter[str], Counter[str]]:
    """Counts over all worlds' coverages: occurrences of each name, and worlds with that name."""
    times: Counter[str] = Counter()
    seen_in: Counter[str] = Counter()
    for coverage in worlds:
        times.update(dict(coverage))
        seen_in.update(name for name, _ in coverage)
    return times, seen_in


def never_seen(seen: Collection[str]) -> list[str]:
    """The state transitions (of every release and option), faults and moments of a crash that `seen` lacks."""
    ways = [
        _way(*way[:3])
        for pre_vote in (True, False)
        for is_endless in (True, False)
        for way in transitions(pre_vote=pre_vote, endless_elections=is_endless)
    ]
    every = [*(f"{FAULT}{name}" for name in FAULTS), *(f"{TRAP}{name}" for name in MOMENTS), *ways]
    return [name for name in dict.fromkeys(every) if name not in seen]
