"""Delays the responses to CreateTopics and CreatePartitions until all new partitions have leaders, or the time-out.

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
    """None: the response is sent later. With a time-out of 0 the response at once, in which all topics lack leaders."""
    if timeout_ms <= 0:
        return response(names)
    context.leaders_awaited[request_id] = LeadersAwaited(context.now_ms + timeout_ms, frozenset(names), response)
    return None


def answer_those_led(context: ControllerContext) -> Steps[None]:
    """Answers the requests whose topics have leaders now, or whose time-out is over; called after every event."""
    for request_id, awaited in list(context.leaders_awaited.items()):
        leaderless = {name for name in awaited.names if not _is_led(context.table, name)}
        if not leaderless or awaited.deadline_ms <= context.now_ms:
            del context.leaders_awaited[request_id]
            yield from context.answer(request_id, awaited.response(leaderless))


def _is_led(table: PartitionTable, name: str) -> bool:
    """Whether the topic exists and each of its partitions has a leader."""
    return name in table.topics and bool((table.leader__p[table.rows_of_topic(name)] >= 0).all())
