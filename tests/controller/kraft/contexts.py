"""Contexts to decide upon."""

import itertools
from typing import Any

from kcore.controller.kraft.brokers.fencing import fence_stale_brokers
from kcore.controller.kraft.decision import Decision, Steps, Versioned
from kcore.controller.kraft.handlers import HANDLERS
from kcore.controller.kraft.kraft_context import ControllerContext, RequestInfo
from kcore.controller.kraft.log_lines import Notice, NoticeMaker
from kcore.metadata.image.image import ClusterImage
from kcore.metadata.metadata_version import FEATURE_NAME
from kcore.replication.java_random import JavaRandom
from kcore.schema.metadata_records_settings import FeatureLevelRecord
from kcore.schema.structure import Message
from kcore.steps import finished
from kcore.types import Uuid
from kraft_configs import controller_config

CLUSTER_ID = "AAAAAAAAAAAAAAAAAAAAAQ"


def a_context(level: int = 29, **settings: Any) -> ControllerContext:
    """The context of an empty cluster at a metadata.version; `settings` are those of `controller_config`."""
    ids = iter(range(1, 1 << 62))
    context = ControllerContext(
        controller_config(**{"node_id": 3000, "cluster_id": CLUSTER_ID, **settings}),
        ClusterImage(),
        JavaRandom(1),
        lambda: Uuid(next(ids).to_bytes(16, "big")),
    )
    context.image.apply(FeatureLevelRecord(name=FEATURE_NAME, feature_level=level))
    return context


def decision_of(context: ControllerContext, request: Message, info: RequestInfo) -> Decision:
    """The decision of the request's handler, with all parts at once; it is not applied."""
    return at_once(HANDLERS[type(request)](context, request, info))


def at_once(decided: Decision | Steps) -> Decision:
    """A decision with all its parts."""
    return decided if isinstance(decided, Decision) else finished(decided)


def in_parts(decided: Decision | Steps) -> tuple[Decision, int]:
    """A decision, and the number of its parts."""
    assert not isinstance(decided, Decision)
    for parts in itertools.count(1):
        try:
            next(decided)
        except StopIteration as done:
            return done.value, parts
    raise AssertionError


def fenced_now(context: ControllerContext, now_ms: int) -> Decision | None:
    """The decision of the periodic check for stale brokers, at once; nothing takes effect."""
    decided = fence_stale_brokers(context, now_ms)
    return None if decided is None else at_once(decided)


def applied(context: ControllerContext, decision: Decision) -> None:
    """The records of a decision take effect."""
    for each in decision.records:
        assert isinstance(each, Versioned)
        context.apply(each.record, context.next_offset, 0)


def notice_of(image: ClusterImage, decision: Decision, request: Message | None) -> Notice:
    """The notice of a decision that is not applied yet."""
    maker = NoticeMaker(image, request)
    for each in decision.records:
        maker.add(each)
    return maker.notice()
