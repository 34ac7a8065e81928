"""Requests of administrators, each in a line: what `alike_calls.py` has its calls made of."""

import hashlib
from collections.abc import Callable, Mapping
from typing import Any, Final

from kcore import schema as s
from kcore.schema.acls import AclCreation, DeleteAclsFilter
from kcore.schema.configs import (
    AlterConfigsRequestAlterableConfig,
    AlterConfigsRequestAlterConfigsResource,
    IncrementalAlterConfigsRequestAlterableConfig,
    IncrementalAlterConfigsRequestAlterConfigsResource,
)
from kcore.schema.delegation_tokens import CreatableRenewers, DescribeDelegationTokenOwner
from kcore.schema.describe_quorum import DescribeQuorumRequestPartitionData, DescribeQuorumRequestTopicData
from kcore.schema.partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsTopic,
    ListPartitionReassignmentsTopics,
    ReassignablePartition,
    ReassignableTopic,
    TopicPartitions,
)
from kcore.schema.quotas import AlterClientQuotasRequestEntryData, ComponentData, EntityData, OpData
from kcore.schema.scram import ScramCredentialDeletion, ScramCredentialUpsertion, UserName
from kcore.schema.structure import Message
from kcore.schema.topics import CreatableReplicaAssignment, CreatableTopic, CreatableTopicConfig, DeleteTopicState
from kcore.schema.update_features import FeatureUpdateKey
from kcore.types import Uuid

Answers = Mapping[str, Any]  # Earlier answers by the names of their calls.
TOPIC, BROKER, LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32  # ConfigResource.Type
OF_TOPIC, OF_GROUP, OF_CLUSTER, OF_TOKEN, OF_USER = 2, 3, 4, 6, 7  # ResourceType
LITERAL, PREFIXED = 3, 4
ALL, READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE, ALTER_CONFIGS = 2, 3, 4, 5, 6, 7, 8, 11
DENY, ALLOW = 2, 3
SET, REMOVE, APPEND, SUBTRACT = 0, 1, 2, 3
NOWHERE: Final = 99  # The id of no broker.


def topic(name: str, partitions: int = 1, factor: int = 1, **settings: str | None) -> CreatableTopic:
    configs = [CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in settings.items()]
    return CreatableTopic(name=name, num_partitions=partitions, replication_factor=factor, configs=configs)


def assigned(name: str, *replicas: list[int], partitions: int = -1, first: int = 0) -> CreatableTopic:
    rows = [CreatableReplicaAssignment(partition_index=at, broker_ids=each) for at, each in enumerate(replicas, first)]
    return CreatableTopic(name=name, num_partitions=partitions, replication_factor=-1, assignments=rows)


def creates(*topics: CreatableTopic, validate_only: bool = False) -> Message:
    return s.CreateTopicsRequest(topics=[*topics], timeout_ms=30_000, validate_only=validate_only)


def grows(name: str, count: int, *replicas: list[int], validate_only: bool = False) -> Message:
    rows = [CreatePartitionsAssignment(broker_ids=each) for each in replicas] if replicas else None
    grown = CreatePartitionsTopic(name=name, count=count, assignments=rows)
    return s.CreatePartitionsRequest(topics=[grown], timeout_ms=30_000, validate_only=validate_only)


def deletes(*names: str | Uuid) -> Message:
    states = [
        DeleteTopicState(name=None, topic_id=n) if isinstance(n, Uuid) else DeleteTopicState(name=n) for n in names
    ]
    return s.DeleteTopicsRequest(topics=states, timeout_ms=30_000)


def alters(kind: int, name: str, *changes: tuple[str, int, str | None], validate_only: bool = False) -> Message:
    return s.IncrementalAlterConfigsRequest(resources=[resource(kind, name, *changes)], validate_only=validate_only)


def resource(kind: int, name: str, *changes: tuple[str, int, str | None]) -> Any:
    rows = [
        IncrementalAlterConfigsRequestAlterableConfig(name=key, config_operation=operation, value=value)
        for key, operation, value in changes
    ]
    return IncrementalAlterConfigsRequestAlterConfigsResource(resource_type=kind, resource_name=name, configs=rows)


def replaces(kind: int, name: str, validate_only: bool = False, **settings: str | None) -> Message:
    rows = [
        AlterConfigsRequestAlterableConfig(name=key.replace("_", "."), value=each) for key, each in settings.items()
    ]
    changed = AlterConfigsRequestAlterConfigsResource(resource_type=kind, resource_name=name, configs=rows)
    return s.AlterConfigsRequest(resources=[changed], validate_only=validate_only)


def entry(
    kind: int,
    name: str,
    operation: int,
    *,
    pattern: int = LITERAL,
    who: str = "User:bob",
    host: str = "*",
    permission: int = ALLOW,
) -> AclCreation:
    return AclCreation(
        resource_type=kind,
        resource_name=name,
        resource_pattern_type=pattern,
        principal=who,
        host=host,
        operation=operation,
        permission_type=permission,
    )


def grants(*entries: AclCreation) -> Message:
    return s.CreateAclsRequest(creations=[*entries])


def revokes(kind: int = 1, name: str | None = None, pattern: int = 1, who: str | None = None) -> Message:
    row = DeleteAclsFilter(
        resource_type_filter=kind,
        resource_name_filter=name,
        pattern_type_filter=pattern,
        principal_filter=who,
        host_filter=None,
        operation=1,
        permission_type=1,
    )
    return s.DeleteAclsRequest(filters=[row])


def sees_acls(kind: int = 1, name: str | None = None, pattern: int = 1, **more: Any) -> Message:
    fields = {"operation": 1, "permission_type": 1, "principal_filter": None, "host_filter": None} | more
    return s.DescribeAclsRequest(
        resource_type_filter=kind, resource_name_filter=name, pattern_type_filter=pattern, **fields
    )


def limits(entity: dict[str, str | None], validate_only: bool = False, **values: float | None) -> Message:
    parts = [EntityData(entity_type=kind, entity_name=name) for kind, name in entity.items()]
    ops = [OpData(key=key, value=value or 0.0, remove=value is None) for key, value in values.items()]
    row = AlterClientQuotasRequestEntryData(entity=parts, ops=ops)
    return s.AlterClientQuotasRequest(entries=[row], validate_only=validate_only)


def sees_limits(*components: tuple[str, int, str | None], strict: bool = False) -> Message:
    rows = [ComponentData(entity_type=kind, match_type=match, match=name) for kind, match, name in components]
    return s.DescribeClientQuotasRequest(components=rows, strict=strict)


def upserts(name: str, mechanism: int = 1, iterations: int = 4096, salt: bytes = b"salt") -> ScramCredentialUpsertion:
    salted = hashlib.pbkdf2_hmac("sha256" if mechanism == 1 else "sha512", b"secret", salt, 4096)
    return ScramCredentialUpsertion(
        name=name, mechanism=mechanism, iterations=iterations, salt=salt, salted_password=salted
    )


def passwords(*upsertions: ScramCredentialUpsertion, without: tuple[tuple[str, int], ...] = ()) -> Message:
    deletions = [ScramCredentialDeletion(name=name, mechanism=mechanism) for name, mechanism in without]
    return s.AlterUserScramCredentialsRequest(deletions=deletions, upsertions=[*upsertions])


def sees_passwords(*names: str) -> Message:
    return s.DescribeUserScramCredentialsRequest(users=[UserName(name=each) for each in names] or None)


def token(*renewers: str, owner: tuple[str | None, str | None] = (None, None), lifetime_ms: int = -1) -> Message:
    pairs = [each.split(":") for each in renewers]
    rows = [CreatableRenewers(principal_type=kind, principal_name=name) for kind, name in pairs]
    return s.CreateDelegationTokenRequest(
        owner_principal_type=owner[0], owner_principal_name=owner[1], renewers=rows, max_lifetime_ms=lifetime_ms
    )


def renews(name: str | None, period_ms: int = -1) -> Callable[[Answers], Message]:
    return lambda answers: s.RenewDelegationTokenRequest(hmac=hmac_of(answers, name), renew_period_ms=period_ms)


def expires(name: str | None, period_ms: int = -1) -> Callable[[Answers], Message]:
    return lambda answers: s.ExpireDelegationTokenRequest(hmac=hmac_of(answers, name), expiry_time_period_ms=period_ms)


def hmac_of(answers: Answers, name: str | None) -> bytes:
    return b"no token" if name is None else bytes(answers[name].hmac)


def sees_tokens(*owners: str) -> Message:
    pairs = [each.split(":") for each in owners]
    rows = [DescribeDelegationTokenOwner(principal_type=kind, principal_name=name) for kind, name in pairs]
    return s.DescribeDelegationTokenRequest(owners=rows or None)


def features(*updates: tuple[str, int, int], validate_only: bool = False) -> Message:
    rows = [FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=kind) for name, level, kind in updates]
    return s.UpdateFeaturesRequest(timeout_ms=30_000, feature_updates=rows, validate_only=validate_only)


def elects(name: str | None, *partitions: int, kind: int = 0) -> Message:
    rows = None if name is None else [TopicPartitions(topic=name, partitions=[*partitions])]
    return s.ElectLeadersRequest(election_type=kind, topic_partitions=rows, timeout_ms=30_000)


def moves(name: str, partition: int, replicas: list[int] | None) -> Message:
    row = ReassignablePartition(partition_index=partition, replicas=replicas)
    return s.AlterPartitionReassignmentsRequest(
        topics=[ReassignableTopic(name=name, partitions=[row])], timeout_ms=30_000
    )


def sees_moves(*names: str) -> Message:
    rows = [ListPartitionReassignmentsTopics(name=each, partition_indexes=[0]) for each in names]
    return s.ListPartitionReassignmentsRequest(topics=rows or None, timeout_ms=30_000)


def quorum(name: str = "__cluster_metadata", partition: int = 0) -> Message:
    row = DescribeQuorumRequestPartitionData(partition_index=partition)
    return s.DescribeQuorumRequest(topics=[DescribeQuorumRequestTopicData(topic_name=name, partitions=[row])])
