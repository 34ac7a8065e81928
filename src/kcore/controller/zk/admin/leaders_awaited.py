"""CreateTopics and CreatePartitions are answered when all their partitions are led, or when time is up.

Source: DelayedCreatePartitions of 3.9.1.
"""

from collections.abc import Callable, Collection

from kcore.controller.zk.effects import Steps
from kcore.controller.zk.zk_context import ControllerContext, LeadersAwaited
from kcore.metadata.table.partition_table import PartitionTable
from kcore.schema.structure import Message


def answer_when_led(
    context: ControllerContext,
    request_id: int,
    names: Collection[str],
    timeout_ms: int,
    response: Callable[[Collection[str]], Message],
) -> Message | None:
    """The response if the client does not wait, where no topic counts as led; None if it is sent later."""
    if timeout_ms <= 0:
        return response(names)
    context.leaders_awaited[request_id] = LeadersAwaited(context.now_ms + timeout_ms, frozenset(names), response)
    return None


def answer_those_led(context: ControllerContext) -> Steps[None]:
    """After every event: answers requests whose leaders are there now, or whose time-out is over."""
    for request_id, awaited in list(context.leaders_awaited.items()):
        leaderless = {name for name in awaited.names if not _is_led(context.table, name)}
        if not leaderless or awaited.deadline_ms <= context.now_ms:
            del context.leaders_awaited[request_id]
            yield from context.answer(request_id, awaited.response(leaderless))


def _is_led(table: PartitionTable, name: str) -> bool:
    """Whether the topic is there and each of its partitions has a leader."""
    return name in table.topics and bool((table.leader__p[table.rows_of_topic(name)] >= 0).all())
