"""CreateTopics and CreatePartitions are answered when all their partitions are led, or when time is up.

Source: DelayedCreatePartitions of 3.9.1.
"""

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, NamedTuple

from kcore.controller.effects import Steps
from kcore.metadata.partition_table import PartitionTable
from kcore.schema.structure import Message

if TYPE_CHECKING:
    from kcore.controller.active import ActiveController


class LeadersAwaited(NamedTuple):
    """A request that is not answered yet."""

    deadline_ms: int
    names: frozenset[str]
    response: Callable[[Collection[str]], Message]  # The answer where these topics lack a leader.


def answer_when_led(
    active: "ActiveController",
    request_id: int,
    names: Collection[str],
    timeout_ms: int,
    response: Callable[[Collection[str]], Message],
) -> Steps[None]:
    """Now, if there is nothing to wait for; with no time to wait no topic counts as led."""
    if timeout_ms <= 0:
        yield from active.answer(request_id, response(names))
        return
    active.leaders_awaited[request_id] = LeadersAwaited(active.now_ms + timeout_ms, frozenset(names), response)
    yield from answer_those_led(active)


def answer_those_led(active: "ActiveController") -> Steps[None]:
    """After every event: whoever has waited for what there is now, or long enough."""
    for request_id, awaited in list(active.leaders_awaited.items()):
        leaderless = {name for name in awaited.names if not _is_led(active.table, name)}
        if not leaderless or awaited.deadline_ms <= active.now_ms:
            del active.leaders_awaited[request_id]
            yield from active.answer(request_id, awaited.response(leaderless))


def _is_led(table: PartitionTable, name: str) -> bool:
    """Whether the topic is there and each of its partitions has a leader."""
    return name in table.topics and bool((table.leader__p[table.rows_of_topic(name)] >= 0).all())
