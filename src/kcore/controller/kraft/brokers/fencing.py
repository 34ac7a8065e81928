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

    The decision elects none of these brokers. An ISR stays if all of its members are among these brokers, so that any
    of them may lead when it returns. In Kafka's way ("fences-one-by-one") each call fences one broker, and the result
    is None after the last broker. A call may then elect a broker that the next call fences.

    Kafka records a heartbeat on arrival, in another thread (KAFKA-15019, KAFKA-19294). In kcore one event loop does
    everything. So the first check after a pause fences no broker: the loop first reads the heartbeats that arrived
    during the pause. Kafka's way ("fences-after-a-pause") has no such exception.
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
    """Kafka's way: fence one broker; None if no session is over. An unregistered incarnation needs no record."""
    while (expired := context.heartbeats.expire_first(context.image, now_ms)) is not None:
        if not expired.is_registered:
            return Decision(has_more=True)
        if _is_fenced_now(context, expired):
            return Decision(records=broker_records.fenced(context, [expired.broker_id]), is_atomic=False)
    return None


def _is_fenced_now(context: ControllerContext, expired: Expired) -> bool:
    """True if the broker must be fenced now. As in Kafka, a fenced broker whose session ends is fenced again."""
    brokers = context.image.brokers
    if (row := brokers.registered_row(expired.broker_id)) is None:
        return False
    return not brokers.fenced__b[row] or expired.had_session
