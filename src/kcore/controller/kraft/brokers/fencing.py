"""Fences brokers whose sessions have ended.

Source: ReplicationControlManager.maybeFenceOneStaleBroker.
"""

from collections.abc import Iterator, Sequence

from kcore.controller.kraft.brokers import records as broker_records
from kcore.controller.kraft.brokers.heartbeats import Expired
from kcore.controller.kraft.decision import Decision, Steps
from kcore.controller.kraft.departures import FENCES_AFTER_A_PAUSE, FENCES_ONE_BY_ONE
from kcore.controller.kraft.kraft_context import ControllerContext


def fence_stale_brokers(context: ControllerContext, now_ms: int) -> Decision | Steps | None:
    """Fence every broker whose session is over, in one decision, in parts; None if no session is over.

    In Kafka's way ("fences-one-by-one") each call fences one broker, until the result is None. Each fencing may then
    elect a broker whose session is over as well, and all but the last one leave their ISRs. In one decision none of
    these brokers is elected, and an ISR that has only such members stays, so that any of them may lead when it returns.

    Kafka records a heartbeat on arrival, in a thread of its own (KAFKA-15019, KAFKA-19294). Here one loop does
    everything, so the first check after a pause fences nobody: the loop first reads the heartbeats that arrived in the
    pause ("fences-after-a-pause").
    """
    was_checked_lately = context.heartbeats.was_checked_lately(now_ms)
    if not was_checked_lately and FENCES_AFTER_A_PAUSE not in context.config.kafka_way:
        return None
    if FENCES_ONE_BY_ONE in context.config.kafka_way:
        return _fence_one(context, now_ms)
    expired = sorted(_expired(context, now_ms))
    return _fenced(context, expired) if expired else None


def _fenced(context: ControllerContext, broker_ids: Sequence[int]) -> Steps:
    records = yield from broker_records.fenced_in_parts(context, broker_ids)
    return Decision(records=records, is_atomic=False)


def _expired(context: ControllerContext, now_ms: int) -> Iterator[int]:
    for expired in context.heartbeats.expire(context.image, now_ms):
        if _is_fenced_now(context, expired):
            yield expired.broker_id


def _fence_one(context: ControllerContext, now_ms: int) -> Decision | None:
    """Kafka's way: fence one broker. The session of an unregistered incarnation ends without a record."""
    while (expired := context.heartbeats.expire_first(context.image, now_ms)) is not None:
        if not expired.is_registered:
            return Decision(has_more=True)
        if _is_fenced_now(context, expired):
            return Decision(records=broker_records.fenced(context, [expired.broker_id]), is_atomic=False)
    return None


def _is_fenced_now(context: ControllerContext, expired: Expired) -> bool:
    """True if the end of the session is written. As in Kafka, it is also written for a fenced broker."""
    brokers = context.image.brokers
    if (row := brokers.registered_row(expired.broker_id)) is None:
        return False
    return not brokers.fenced__b[row] or expired.had_session
