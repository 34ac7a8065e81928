"""Elections with a min.insync.replicas that is not a number ("unreadable-broker-settings")."""

from kcore.constants import MIN_ISR
from kcore.controller.kraft.decision import Decision
from kcore.controller.kraft.departures import BROKER_SETTINGS
from kcore.controller.kraft.election_settings import settings_of_nodes
from kcore.controller.kraft.kafka_way.faults import ControllerFaultError
from kcore.controller.kraft.kraft_context import ControllerContext
from kcore.java_hash import java_int
from kcore.replication.kraft_results import KraftElections
from kcore.schema.configs import ConfigResourceType


def check_min_isr(context: ControllerContext, decision: Decision) -> None:
    """ControllerFaultError if a changed topic inherits a min.insync.replicas that Kafka cannot read.

    Source: ReplicationControlManager.getTopicEffectiveMinIsr.
    """
    if BROKER_SETTINGS not in context.config.kafka_way:
        return
    image = context.image
    value = next((each[MIN_ISR] for each in settings_of_nodes(image, context.config) if MIN_ISR in each), "1")
    if java_int(value) is not None:
        return
    for each in decision.records:
        if isinstance(each, KraftElections):
            for row in {*image.table.topic_row__p[each.rows].tolist()}:
                if MIN_ISR not in image.configs.get((ConfigResourceType.TOPIC, image.topics.names[row]), {}):
                    raise ControllerFaultError(f"{MIN_ISR}={value} is no number")
