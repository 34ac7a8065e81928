"""Clusters of brokers and partitions to decide upon, and what takes effect of a decision."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from controller.kraft.contexts import CLUSTER_ID, a_context, decision_of, fenced_now
from kcore.controller.kraft.decision import Decision, Versioned
from kcore.controller.kraft.kraft_context import ControllerContext, RequestInfo
from kcore.metadata.image.replay import replay
from kcore.metadata.metadata_version import FEATURE_NAME
from kcore.metadata.table.changes import KraftChanges
from kcore.metadata.table.partition_values import PartitionCreations, records_of_creation
from kcore.protocol_errors import Errors
from kcore.replication.kraft_results import KraftElections
from kcore.schema.broker_lifecycle import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    BrokerRegistrationRequest,
    Feature,
    Listener,
)
from kcore.schema.metadata_records_brokers import RegisterBrokerRecord
from kcore.schema.structure import Message, MetadataRecord
from kcore.types import Uuid
from kcore.wire.records import decode_records

SESSION_MS = 9_000
BEGIN_MS = 1_000_000


def uuid(number: int) -> Uuid:
    """A number of one's own, above the reserved ones."""
    return Uuid((number << 64).to_bytes(16, "big"))


def a_cluster(brokers: Iterable[int] = (1, 2, 3), **settings: Any) -> ControllerContext:
    """Unfenced brokers, each with one directory, uuid(1000 + id), under a controller that has just begun to lead."""
    context = a_context(**settings)
    for broker_id in brokers:
        put(
            context,
            RegisterBrokerRecord(
                broker_id=broker_id,
                incarnation_id=uuid(broker_id),
                broker_epoch=context.next_offset,
                fenced=False,
                log_dirs=[uuid(1000 + broker_id)] if context.version.directories_supported else [],
            ),
        )
    context.activate(BEGIN_MS)
    for broker_id in brokers:
        beat(context, broker_id, BEGIN_MS)
    return context


def put(context: ControllerContext, record: MetadataRecord, now_ms: int = BEGIN_MS) -> None:
    """The record takes effect."""
    context.apply(record, context.next_offset, now_ms)


def a_topic(
    context: ControllerContext, count: int, replicas: Sequence[int], isr: Sequence[int] | None = None, number: int = 1
) -> Uuid:
    """A topic of so many partitions, all alike; the leader is the first of the ISR."""
    topic_id, members = uuid(5000 + number), replicas if isr is None else isr
    image, padding = context.image, [-1] * len(replicas)
    homes = [image.directories.row(uuid(1000 + each)) for each in replicas]
    created = PartitionCreations(
        names=[f"topic-{number}"],
        topic_ids=[topic_id],
        is_new=[True],
        topics=np.zeros(count, np.int32),
        partitions=np.arange(count, dtype=np.int32),
        replicas=np.tile(np.array(replicas, np.int32), (count, 1)),
        isr=np.tile(np.array([*members, *padding][: len(replicas)], np.int32), (count, 1)),
        leaders=np.full(count, members[0] if members else -1, np.int32),
        directories=np.tile(homes, (count, 1)) if context.version.directories_supported else None,
    )
    values = records_of_creation(image.brokers, created, context.version)
    for batch in values.batches(context.next_offset, epoch=1, timestamp=0):
        replay(image, decode_records(bytes(batch)))
    image.end_offset += len(values)
    return topic_id


def ask(context: ControllerContext, request: Message, now_ms: int = BEGIN_MS, version: int = 4) -> Decision:
    """The decision about a request, which is not applied."""
    return decision_of(context, request, RequestInfo(version, now_ms))


def take_effect(context: ControllerContext, decision: Decision, now_ms: int = BEGIN_MS) -> Decision:
    """The decision's records are replayed."""
    for each in decision.records:
        if isinstance(each, Versioned):
            put(context, each.record, now_ms)
        else:
            assert not isinstance(each, PartitionCreations)
            changes = each.records() if isinstance(each, KraftElections) else each
            offset = context.next_offset
            context.image.apply_changes(changes, offset)
            context.image.end_offset = offset + len(changes)
    return decision


def beat(context: ControllerContext, broker_id: int, now_ms: int = BEGIN_MS, **given: Any) -> BrokerHeartbeatResponse:
    """A heartbeat, which takes effect; the broker has applied everything unless `given` says otherwise."""
    response = take_effect(context, ask(context, a_heartbeat(context, broker_id, **given), now_ms), now_ms).response
    assert isinstance(response, BrokerHeartbeatResponse)
    return response


def look(context: ControllerContext, now_ms: int) -> Decision | None:
    """The look for stale brokers at that time, after one a little earlier that fenced nobody."""
    context.heartbeats.was_checked_lately(now_ms - SESSION_MS // 8)
    return fenced_now(context, now_ms)


def a_heartbeat(context: ControllerContext, broker_id: int, **given: Any) -> BrokerHeartbeatRequest:
    """A heartbeat of a registered broker that asks for nothing."""
    fields = {
        "broker_epoch": context.image.brokers[broker_id].epoch,
        "current_metadata_offset": context.next_offset - 1,
    }
    return BrokerHeartbeatRequest(broker_id=broker_id, **(fields | given))


def a_registration(broker_id: int, incarnation: int, **given: Any) -> BrokerRegistrationRequest:
    """The registration of a broker that supports all levels of metadata.version."""
    fields: dict[str, Any] = {
        "cluster_id": CLUSTER_ID,
        "incarnation_id": uuid(incarnation),
        "listeners": [Listener(name="PLAINTEXT", host="host", port=9092, security_protocol=0)],
        "features": [Feature(name=FEATURE_NAME, min_supported_version=1, max_supported_version=99)],
        "log_dirs": [uuid(1000 + broker_id)],
    }
    return BrokerRegistrationRequest(broker_id=broker_id, **(fields | given))


def error_of(decision: Decision) -> Errors:
    """The code in the response; a refused request writes nothing."""
    error = Errors(getattr(decision.response, "error_code"))  # noqa: B009 (a Message of any type)
    assert error is Errors.NONE or not decision.records
    return error


def changes_of(decision: Decision) -> list[KraftElections | KraftChanges]:
    """The changes of partitions, each many records."""
    return [each for each in decision.records if isinstance(each, KraftElections | KraftChanges)]


def records_of(decision: Decision) -> list[MetadataRecord]:
    """The single records."""
    return [each.record for each in decision.records if isinstance(each, Versioned)]
