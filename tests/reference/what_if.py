"""The slow twin of `kcore.whatif`: plain dicts, one partition after the other.

A partition is a dict as in `reference/partition_change.py`. `decide(partition, gone)` gives its state after the loss of
these brokers, by the twins of the controllers.
"""

from collections.abc import Callable, Iterable
from itertools import combinations
from typing import Any

Partition = dict[str, Any]
Decide = Callable[[Partition, set[int]], Partition]
Counts = dict[str, int]


def gone_of(p: Partition, brokers: set[int], directories: dict[int, int]) -> set[int]:
    """The replicas that are lost: those on the brokers, and those in these directories, given with their brokers."""
    slots = zip(p["replicas"], p["directories"], strict=True)
    return {broker for broker, directory in slots if broker in brokers or directories.get(directory) == broker}


def states(p: Partition, up: set[int]) -> Counts:
    """The states of a partition if these brokers are up."""
    in_sync = sum(member in up for member in p["isr"])
    least = max(1, min(p["min_isr"], len(p["replicas"])))
    return {
        "without_leader": int(p["leader"] not in up),
        "under_min_isr": int(in_sync < least),
        "one_in_sync": int(in_sync == 1),
    }


def effects(p: Partition, after: Partition, live: set[int], gone: set[int]) -> Counts:
    """The effects on one partition."""
    up = live - gone
    was, now = states(p, live), states(after, up)
    complete = {*p["isr"], *(member for member in p["elr"] if member in p["replicas"])}
    moved = after["leader"] != p["leader"] and after["leader"] in up
    return {
        **{name: now[name] - was[name] for name in was},
        "partitions": 1,
        "moved_leaders": int(moved),
        "unclean_leaders": int(moved and after["leader"] not in complete),
        "at_risk": int(bool(complete & live) and not complete & up),
        "without_replica": int(bool({*p["replicas"]} & live) and not {*p["replicas"]} & up),
    }


def lose(
    partitions: Iterable[Partition], live: set[int], brokers: set[int], directories: dict[int, int], decide: Decide
) -> tuple[Counts, dict[int, int]]:
    """The counts of a scenario, states after the loss, and the leaders of each broker that is still live."""
    counts: Counts = {}
    leaders = dict.fromkeys(sorted(live - brokers), 0)
    for p in partitions:
        gone = gone_of(p, brokers, directories)
        after = decide(p, gone) if gone else p
        found = dict(states(p, live))
        for name, change in effects(p, after, live, gone).items() if gone else ():
            found[name] = found.get(name, 0) + change
        for name, count in found.items():
            counts[name] = counts.get(name, 0) + count
        if after["leader"] in leaders and after["leader"] not in gone:
            leaders[after["leader"]] += 1
    return counts, leaders


def may_restart_together(partitions: Iterable[Partition], live: set[int], group: set[int]) -> bool:
    """True if no partition goes below min ISR because the brokers are down at once."""
    for p in partitions:
        members = {*p["isr"]} & live
        least = max(1, min(p["min_isr"], len(p["replicas"])))
        if len(members & group) > max(1, len(members) - least):
            return False
    return True


def fewest_steps(partitions: list[Partition], live: set[int]) -> int:
    """The least number of groups that hold all live brokers, by trying all divisions of few brokers."""
    brokers = sorted(live)
    allowed = {
        frozenset(group)
        for size in range(1, len(brokers) + 1)
        for group in combinations(brokers, size)
        if may_restart_together(partitions, live, {*group})
    }
    least = {frozenset[int](): 0}
    for size in range(1, len(brokers) + 1):
        for chosen in map(frozenset, combinations(brokers, size)):
            least[chosen] = min(1 + least[chosen - group] for group in allowed if group <= chosen)
    return least[frozenset(brokers)]
