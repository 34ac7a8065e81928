"""Builds the requests of a replay from causes and the target's image, and reads the error codes of the answers."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from kcore.measure.hollow.fleet import HollowBroker
from kcore.measure.hollow.isr import request_of
from kcore.measure.storm.replay.events import (
    DirectoriesAssigned,
    Elected,
    FeaturesUpdated,
    IsrsChanged,
    Partition,
    PartitionsAdded,
    QuotasAltered,
    Setting,
    TopicsCreated,
    TopicsDeleted,
)
from kcore.metadata.image.image import ClusterImage
from kcore.protocol_errors import Errors
from kcore.schema import configs, log_dirs, partitions, quotas, topics
from kcore.schema.alter_partition import AlterPartitionRequest
from kcore.schema.update_features import FeatureUpdateKey, UpdateFeaturesRequest, UpgradeType
from kcore.types import Int32s, Uuid

TIMEOUT_MS: Final = 60_000
_SET, _DELETE = 0, 1  # IncrementalAlterConfigs
_FINE: Final = (Errors.NONE, Errors.ELECTION_NOT_NEEDED)
_LISTS: Final = (
    *("topics", "responses", "results", "partitions", "directories", "entries"),
    *("replica_election_results", "partition_result"),
)


def create_topics(cause: TopicsCreated) -> topics.CreateTopicsRequest:
    """Creates topics with the recorded replicas and settings."""
    return topics.CreateTopicsRequest(
        topics=[
            topics.CreatableTopic(
                name=topic.name,
                num_partitions=-1,
                replication_factor=-1,
                assignments=[
                    topics.CreatableReplicaAssignment(partition_index=index, broker_ids=[*replicas])
                    for index, replicas in sorted(topic.assignments.items())
                ],
                configs=[topics.CreatableTopicConfig(name=name, value=value) for name, value in topic.configs.items()],
            )
            for topic in cause.topics
        ],
        timeout_ms=TIMEOUT_MS,
    )


def create_partitions(cause: PartitionsAdded) -> partitions.CreatePartitionsRequest:
    """Adds partitions with the recorded replicas."""
    topic = partitions.CreatePartitionsTopic(
        name=cause.topic,
        count=max(cause.assignments) + 1,
        assignments=[
            partitions.CreatePartitionsAssignment(broker_ids=[*replicas])
            for _, replicas in sorted(cause.assignments.items())
        ],
    )
    return partitions.CreatePartitionsRequest(topics=[topic], timeout_ms=TIMEOUT_MS)


def delete_topics(cause: TopicsDeleted) -> topics.DeleteTopicsRequest:
    """Deletes topics by name."""
    states = [topics.DeleteTopicState(name=name) for name in cause.names]
    return topics.DeleteTopicsRequest(topics=states, topic_names=[*cause.names], timeout_ms=TIMEOUT_MS)


def alter_partition(
    cause: IsrsChanged, image: ClusterImage, brokers: dict[int, HollowBroker], leader: int, rows: Int32s
) -> AlterPartitionRequest:
    """The leader's new ISRs; `rows`: the partitions' rows in the target's table, in the order of the changes."""
    isrs = [change.isr for change in cause.changes]
    request = request_of(image.table, rows, isrs, range(len(isrs)), brokers, leader)
    states = {change.partition: change.leader_recovery_state for change in cause.changes}
    for topic in request.topics:
        row = image.topics.row_of_id(topic.topic_id)
        assert row is not None
        for each in topic.partitions:
            each.leader_recovery_state = states[Partition(image.topics.names[row] or "", each.partition_index)]
    return request


def reassign(moves: Mapping[Partition, tuple[int, ...] | None]) -> partitions.AlterPartitionReassignmentsRequest:
    """Begins reassignments, or cancels them where the replicas are None."""
    by_topic: dict[str, list[partitions.ReassignablePartition]] = {}
    for partition, replicas in moves.items():
        wanted = None if replicas is None else [*replicas]
        by_topic.setdefault(partition.topic, []).append(
            partitions.ReassignablePartition(partition_index=partition.partition_index, replicas=wanted)
        )
    return partitions.AlterPartitionReassignmentsRequest(
        timeout_ms=TIMEOUT_MS,
        topics=[partitions.ReassignableTopic(name=name, partitions=each) for name, each in by_topic.items()],
    )


def elect(cause: Elected) -> partitions.ElectLeadersRequest:
    """Elects preferred leaders, or leaders of leaderless partitions."""
    by_topic: dict[str, list[int]] = {}
    for partition in cause.partitions:
        by_topic.setdefault(partition.topic, []).append(partition.partition_index)
    kind = partitions.ElectionType.UNCLEAN if cause.is_unclean else partitions.ElectionType.PREFERRED
    wanted = [partitions.TopicPartitions(topic=name, partitions=each) for name, each in by_topic.items()]
    return partitions.ElectLeadersRequest(election_type=kind, topic_partitions=wanted, timeout_ms=TIMEOUT_MS)


def assign_directories(
    cause: DirectoriesAssigned, image: ClusterImage, broker: HollowBroker
) -> log_dirs.AssignReplicasToDirsRequest:
    """The broker's report of the directories of its replicas."""
    ids = image.topic_ids
    found: dict[Uuid, dict[Uuid, list[int]]] = {}
    for partition, directory in cause.directories.items():
        if partition.topic in ids:
            found.setdefault(directory, {}).setdefault(ids[partition.topic], []).append(partition.partition_index)
    directories = [
        log_dirs.AssignReplicasToDirsRequestDirectoryData(
            id=directory,
            topics=[
                log_dirs.AssignReplicasToDirsRequestTopicData(
                    topic_id=topic_id,
                    partitions=[
                        log_dirs.AssignReplicasToDirsRequestPartitionData(partition_index=at) for at in indexes
                    ],
                )
                for topic_id, indexes in by_topic.items()
            ],
        )
        for directory, by_topic in found.items()
    ]
    return log_dirs.AssignReplicasToDirsRequest(
        broker_id=broker.broker_id, broker_epoch=broker.epoch, directories=directories
    )


def update_features(cause: FeaturesUpdated, image: ClusterImage) -> UpdateFeaturesRequest:
    """Sets levels of features; a lower level than the present one is a safe downgrade."""
    upgrade, downgrade = UpgradeType.UPGRADE, UpgradeType.SAFE_DOWNGRADE
    return UpdateFeaturesRequest(
        timeout_ms=TIMEOUT_MS,
        feature_updates=[
            FeatureUpdateKey(
                feature=name,
                max_version_level=level,
                upgrade_type=downgrade if level < image.features.get(name, 0) else upgrade,
            )
            for name, level in cause.levels.items()
        ],
    )


def alter_configs(settings: tuple[Setting, ...]) -> configs.IncrementalAlterConfigsRequest:
    """Sets and removes settings."""
    by_resource: dict[tuple[int, str], list[configs.IncrementalAlterConfigsRequestAlterableConfig]] = {}
    for each in settings:
        change = configs.IncrementalAlterConfigsRequestAlterableConfig(
            name=each.name, config_operation=_DELETE if each.value is None else _SET, value=each.value
        )
        by_resource.setdefault((each.resource_type, each.resource_name), []).append(change)
    return configs.IncrementalAlterConfigsRequest(
        resources=[
            configs.IncrementalAlterConfigsRequestAlterConfigsResource(
                resource_type=kind, resource_name=name, configs=changes
            )
            for (kind, name), changes in by_resource.items()
        ]
    )


def alter_quotas(cause: QuotasAltered) -> quotas.AlterClientQuotasRequest:
    """Sets and removes quotas of clients."""
    return quotas.AlterClientQuotasRequest(
        entries=[
            quotas.AlterClientQuotasRequestEntryData(
                entity=[*each.entity], ops=[quotas.OpData(key=each.key, value=each.value, remove=each.remove)]
            )
            for each in cause.quotas
        ]
    )


def errors_of(answer: Any) -> list[Errors]:
    """The errors in an answer, of all its topics, partitions and other items."""
    return [error for code in _codes(answer) if (error := Errors.of(code)) not in _FINE]


def _codes(answer: Any) -> Iterator[int]:
    yield getattr(answer, "error_code", 0)
    for name in _LISTS:
        for each in getattr(answer, name, None) or ():
            if not isinstance(each, int):
                yield from _codes(each)
