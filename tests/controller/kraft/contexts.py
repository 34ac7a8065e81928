"""Contexts to decide upon."""

from typing import Any

from kcore.controller.kraft.config import KraftControllerConfig
from kcore.controller.kraft.context import ControllerContext, RequestInfo
from kcore.controller.kraft.decision import Decision, Versioned
from kcore.controller.kraft.handlers import HANDLERS
from kcore.metadata.image import ClusterImage
from kcore.metadata.metadata_version import FEATURE_NAME
from kcore.replication.java_random import JavaRandom
from kcore.schema.metadata_records_settings import FeatureLevelRecord
from kcore.schema.structure import Message
from kcore.types import Uuid

CLUSTER_ID = "AAAAAAAAAAAAAAAAAAAAAQ"


def a_context(level: int = 29, **settings: Any) -> ControllerContext:
    """Of an empty cluster at a metadata.version; `settings` are those of KraftControllerConfig."""
    ids = iter(range(1, 1 << 62))
    context = ControllerContext(
        KraftControllerConfig(**{"node_id": 3000, "cluster_id": CLUSTER_ID, **settings}),
        ClusterImage(),
        JavaRandom(1),
        lambda: Uuid(next(ids).to_bytes(16, "big")),
    )
    context.image.apply(FeatureLevelRecord(name=FEATURE_NAME, feature_level=level))
    return context


def decision_of(context: ControllerContext, request: Message, info: RequestInfo) -> Decision:
    """What the handler of the request decides, at once where it does so part by part; nothing takes effect."""
    decided = HANDLERS[type(request)](context, request, info)
    if isinstance(decided, Decision):
        return decided
    while True:
        try:
            next(decided)
        except StopIteration as done:
            return done.value


def applied(context: ControllerContext, decision: Decision) -> None:
    """The records of a decision take effect."""
    for each in decision.records:
        assert isinstance(each, Versioned)
        context.apply(each.record, context.next_offset, 0)
