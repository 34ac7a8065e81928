"""Brokers with several log directories, and their requests to the controller about directories."""

from collections.abc import Mapping, Sequence
from typing import Any

from controller.kraft.broker_clusters import (
    a_heartbeat,
    a_registration,
    ask,
    error_of,
    put,
    take_effect,
    uuid,
)
from kcore.controller.kraft.decision import Decision, encoded
from kcore.controller.kraft.kraft_context import ControllerContext
from kcore.metadata.metadata_version import FEATURE_NAME, MetadataVersion
from kcore.protocol_errors import Errors
from kcore.schema.log_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsRequestDirectoryData,
    AssignReplicasToDirsRequestPartitionData,
    AssignReplicasToDirsRequestTopicData,
    AssignReplicasToDirsResponse,
)
from kcore.schema.metadata_records_settings import FeatureLevelRecord
from kcore.types import Uuid
from kcore.wire.metadata_frames import decode_metadata_record

TOPIC, TOPIC_ID = "topic-1", uuid(5001)
FIRST, SECOND = uuid(1001), uuid(2001)  # Broker 1's, once it has two.
BEFORE, SINCE = MetadataVersion.parse("3.7-IV1").feature_level, MetadataVersion.parse("3.7-IV2").feature_level
MANY = 50_000


def an_assignment(
    context: ControllerContext, broker_id: int, places: Mapping[Uuid, Sequence[int]], topic_id: Uuid = TOPIC_ID
) -> AssignReplicasToDirsRequest:
    """The broker's replicas of these partitions of a topic are in these directories."""
    return AssignReplicasToDirsRequest(
        broker_id=broker_id,
        broker_epoch=context.image.brokers[broker_id].epoch,
        directories=[
            AssignReplicasToDirsRequestDirectoryData(
                id=directory,
                topics=[
                    AssignReplicasToDirsRequestTopicData(
                        topic_id=topic_id,
                        partitions=[AssignReplicasToDirsRequestPartitionData(partition_index=each) for each in indexes],
                    )
                ],
            )
            for directory, indexes in places.items()
        ],
    )


def assign(context: ControllerContext, broker_id: int, places: Mapping[Uuid, Sequence[int]]) -> Decision:
    """It takes effect."""
    return take_effect(context, ask(context, an_assignment(context, broker_id, places), version=0))


def codes_of(decision: Decision) -> list[Errors]:
    response = decision.response
    assert isinstance(response, AssignReplicasToDirsResponse)
    found = (each for directory in response.directories for topic in directory.topics for each in topic.partitions)
    return [Errors(each.error_code) for each in found]


def written(context: ControllerContext, decision: Decision) -> list[Any]:
    """The records, as the log gets them."""
    parts = encoded(context.image, decision.records, context.version)
    return [decode_metadata_record(value)[0] for part in parts for value in part]


def with_two(context: ControllerContext, broker_id: int = 1, incarnation: int | None = None) -> None:
    """The broker registers its first directory and a second one."""
    directories = [uuid(1000 + broker_id), uuid(2000 + broker_id)]
    request = a_registration(broker_id, incarnation or broker_id, log_dirs=directories)
    assert error_of(take_effect(context, ask(context, request))) is Errors.NONE


def fail(context: ControllerContext, broker_id: int, *directories: Uuid) -> Decision:
    """A heartbeat that reports these directories as offline."""
    return take_effect(context, ask(context, a_heartbeat(context, broker_id, offline_log_dirs=[*directories])))


def state(context: ControllerContext, index: int = 0) -> tuple[int, tuple[int, ...]]:
    """Leader and ISR."""
    partition = context.image.partition(TOPIC, index)
    return partition.leader, partition.isr


def raise_level(context: ControllerContext, level: int) -> None:
    put(context, FeatureLevelRecord(name=FEATURE_NAME, feature_level=level))
