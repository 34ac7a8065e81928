"""The calls of `test_answers_alike.py`, in their order: who asks a broker what. They may use earlier answers."""

import hashlib
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

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

Told = Mapping[str, Any]  # Earlier answers by the names of their calls.
TOPIC, BROKER, LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32  # ConfigResource.Type
OF_TOPIC, OF_GROUP, OF_CLUSTER, OF_TOKEN, OF_USER = 2, 3, 4, 6, 7  # ResourceType
LITERAL, PREFIXED = 3, 4
ALL, READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE, ALTER_CONFIGS = 2, 3, 4, 5, 6, 7, 8, 11
DENY, ALLOW = 2, 3
SET, REMOVE, APPEND, SUBTRACT = 0, 1, 2, 3
NOWHERE: Final = 99  # The id of no broker.


class Call(NamedTuple):
    """Who asks what; `settles`: what was written before is known to the broker first."""

    name: str
    user: str
    request: Message | Callable[[Told], Message]
    version: int | None = None  # The newest that both know.
    settles: bool = False


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


def renews(name: str | None, period_ms: int = -1) -> Callable[[Told], Message]:
    return lambda told: s.RenewDelegationTokenRequest(hmac=hmac_of(told, name), renew_period_ms=period_ms)


def expires(name: str | None, period_ms: int = -1) -> Callable[[Told], Message]:
    return lambda told: s.ExpireDelegationTokenRequest(hmac=hmac_of(told, name), expiry_time_period_ms=period_ms)


def hmac_of(told: Told, name: str | None) -> bytes:
    return b"no token" if name is None else bytes(told[name].hmac)


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


OF_TOPICS: Final = (
    Call("create", "admin", creates(topic("t", 2, retention_ms="1000"), topic("shared"))),
    Call("create for validation alone", "admin", creates(topic("v", 3, 1), validate_only=True)),
    Call("create one that is there", "admin", creates(topic("t"))),
    Call("create with wrong names", "admin", creates(topic("a b"), topic(""), topic(".."), topic("x" * 250))),
    Call("create what collides", "admin", creates(topic("c.d"), topic("c_d"))),
    Call("create twice in one request", "admin", creates(topic("twice"), topic("twice"))),
    Call("create with too many replicas", "admin", creates(topic("r5", 1, 5))),
    Call("create with no replicas", "admin", creates(topic("r0", 1, 0))),
    Call("create with no partitions", "admin", creates(topic("p0", 0, 1))),
    Call("create with negative numbers", "admin", creates(topic("n", -2, 1), topic("m", 1, -2))),
    Call("create with defaults", "admin", creates(topic("d", -1, -1))),
    Call("create with an unknown setting", "admin", creates(topic("k1", no_such="1"))),
    Call("create with a wrong value", "admin", creates(topic("k2", retention_ms="x"), topic("k3", cleanup_policy="x"))),
    Call("create with a null setting", "admin", creates(topic("k4", retention_ms=None))),
    Call("create with a value out of range", "admin", creates(topic("k5", min_insync_replicas="0"))),
    Call("create with an assignment", "admin", creates(assigned("a1", [1], [1]))),
    Call("create with an unknown broker", "admin", creates(assigned("a2", [NOWHERE]))),
    Call("create with a broker twice", "admin", creates(assigned("a3", [1, 1]))),
    Call("create with an empty assignment", "admin", creates(assigned("a4", []))),
    Call("create with a gap", "admin", creates(assigned("a5", [1], first=1))),
    Call("create with numbers and an assignment", "admin", creates(assigned("a6", [1], partitions=1))),
    Call("create without the right", "alice", creates(topic("alices"), topic("t"))),
    Call("create in an old version", "admin", creates(topic("old"), topic("t")), 2),
    Call("create partitions", "admin", grows("t", 3)),
    Call("create partitions for validation alone", "admin", grows("t", 4, validate_only=True)),
    Call("create fewer partitions", "admin", grows("t", 2)),
    Call("create as many partitions", "admin", grows("t", 3)),
    Call("create partitions of no topic", "admin", grows("none", 3)),
    Call("create partitions with an assignment", "admin", grows("t", 4, [1])),
    Call("create partitions at an unknown broker", "admin", grows("t", 5, [NOWHERE])),
    Call("create partitions with too few assignments", "admin", grows("t", 7, [1])),
    Call("create partitions with too many replicas", "admin", grows("t", 5, [1, 1])),
    Call("create partitions without the right", "alice", grows("t", 9)),
    Call("delete no topic", "admin", deletes("none", Uuid(b"n" * 16))),
    Call("delete twice in one request", "admin", deletes("old", "old")),
    Call("delete without the right", "alice", deletes("t", "none")),
    Call("delete", "admin", deletes("a1", "d")),
    Call("delete by id", "admin", lambda told: deletes(told["create with a null setting"].topics[0].topic_id)),
    Call("delete in an old version", "admin", s.DeleteTopicsRequest(topic_names=["k4", "none"], timeout_ms=9_000), 4),
)
OF_CONFIGS: Final = (
    Call("set", "admin", alters(TOPIC, "t", ("retention.ms", SET, "5000"))),
    Call("set for validation alone", "admin", alters(TOPIC, "t", ("retention.ms", SET, "1"), validate_only=True)),
    Call("set a wrong value", "admin", alters(TOPIC, "t", ("retention.ms", SET, "x"))),
    Call("set a null value", "admin", alters(TOPIC, "t", ("retention.ms", SET, None))),
    Call("set an unknown name", "admin", alters(TOPIC, "t", ("no.such", SET, "1"))),
    Call("set an empty name", "admin", alters(TOPIC, "t", ("", SET, "1"))),
    Call("set of no topic", "admin", alters(TOPIC, "none", ("retention.ms", SET, "1"))),
    Call("set of a topic without a name", "admin", alters(TOPIC, "", ("retention.ms", SET, "1"))),
    Call("set of a wrong topic", "admin", alters(TOPIC, "a b", ("retention.ms", SET, "1"))),
    Call("set twice", "admin", alters(TOPIC, "t", ("retention.ms", SET, "1"), ("retention.ms", SET, "2"))),
    Call("append", "admin", alters(TOPIC, "t", ("cleanup.policy", APPEND, "compact"))),
    Call("append what is there", "admin", alters(TOPIC, "t", ("cleanup.policy", APPEND, "compact"))),
    Call("append to no list", "admin", alters(TOPIC, "t", ("retention.ms", APPEND, "1"))),
    Call("subtract", "admin", alters(TOPIC, "t", ("cleanup.policy", SUBTRACT, "delete"))),
    Call("remove", "admin", alters(TOPIC, "t", ("retention.ms", REMOVE, None), ("segment.ms", REMOVE, None))),
    Call("set without the right", "alice", alters(TOPIC, "t", ("retention.ms", SET, "1"))),
    Call("set of a broker", "admin", alters(BROKER, "1", ("log.retention.ms", SET, "600000"))),
    Call("set of all brokers", "admin", alters(BROKER, "", ("log.cleaner.threads", SET, "2"))),
    Call("set of an unknown broker", "admin", alters(BROKER, "99", ("log.retention.ms", SET, "600000"))),
    Call("set of a broker by a name", "admin", alters(BROKER, "one", ("log.retention.ms", SET, "600000"))),
    Call("set a read-only one of a broker", "admin", alters(BROKER, "1", ("node.id", SET, "7"))),
    Call("set a wrong one of a broker", "admin", alters(BROKER, "1", ("log.retention.ms", SET, "x"))),
    Call("set of a broker without the right", "alice", alters(BROKER, "1", ("log.retention.ms", SET, "1"))),
    Call("set of a group", "admin", alters(GROUP, "g", ("consumer.session.timeout.ms", SET, "50000"))),
    Call("set a wrong one of a group", "admin", alters(GROUP, "g", ("consumer.session.timeout.ms", SET, "1"))),
    Call("set an unknown one of a group", "admin", alters(GROUP, "g", ("retention.ms", SET, "1"))),
    Call("set of a group without a name", "admin", alters(GROUP, "", ("consumer.session.timeout.ms", SET, "50000"))),
    Call("set of a subscription", "admin", alters(CLIENT_METRICS, "m", ("interval.ms", SET, "1000"))),
    Call("set a wrong one of a subscription", "admin", alters(CLIENT_METRICS, "m", ("interval.ms", SET, "1"))),
    Call("set an unknown one of a subscription", "admin", alters(CLIENT_METRICS, "m", ("no", SET, "1"))),
    Call("set of an unknown kind", "admin", alters(77, "m", ("no", SET, "1"))),
    Call(
        "set of one resource twice",
        "admin",
        s.IncrementalAlterConfigsRequest(resources=[resource(TOPIC, "t", ("segment.ms", SET, "9"))] * 2),
    ),
    Call(
        "set of many",
        "admin",
        s.IncrementalAlterConfigsRequest(
            resources=[
                resource(TOPIC, "t", ("segment.ms", SET, "900000")),
                resource(TOPIC, "none", ("segment.ms", SET, "9")),
                resource(GROUP, "g", ("consumer.heartbeat.interval.ms", SET, "6000")),
                resource(LOGGER, "1", ("kafka.server", SET, "DEBUG")),
            ]
        ),
    ),
    Call("replace", "admin", replaces(TOPIC, "t", retention_ms="7000", segment_ms="800000")),
    Call("replace for validation alone", "admin", replaces(TOPIC, "t", True, retention_ms="1")),
    Call("replace by a wrong value", "admin", replaces(TOPIC, "t", retention_ms="x")),
    Call("replace by an unknown name", "admin", replaces(TOPIC, "t", no_such="x")),
    Call("replace by a null value", "admin", replaces(TOPIC, "t", retention_ms=None)),
    Call("replace of no topic", "admin", replaces(TOPIC, "none", retention_ms="1")),
    Call("replace without the right", "alice", replaces(TOPIC, "t", retention_ms="1")),
    Call("replace of a broker", "admin", replaces(BROKER, "1", log_retention_ms="700000")),
    Call("replace of an unknown broker", "admin", replaces(BROKER, "99", log_retention_ms="700000")),
    Call("replace of an unknown kind", "admin", replaces(77, "x", a="b")),
)
OF_RIGHTS: Final = (
    Call(
        "grant",
        "admin",
        grants(
            entry(OF_TOPIC, "bobs", CREATE, pattern=PREFIXED),
            entry(OF_TOPIC, "shared", ALTER_CONFIGS),
            entry(OF_TOPIC, "shared", DESCRIBE, who="User:carol", host="10.0.0.1", permission=DENY),
            entry(OF_GROUP, "*", READ, who="User:*"),
            entry(OF_USER, "User:alice", 13),
            entry(OF_TOKEN, "a-token", DESCRIBE),
        ),
    ),
    Call("grant what is there", "admin", grants(entry(OF_TOPIC, "shared", ALTER_CONFIGS))),
    Call("grant without a name", "admin", grants(entry(OF_TOPIC, "", READ), entry(OF_TOPIC, "x", READ))),
    Call("grant to whom nobody can be", "admin", grants(entry(OF_TOPIC, "x", READ, who="bob"))),
    Call("grant to an empty name", "admin", grants(entry(OF_TOPIC, "x", READ, who=""))),
    Call("grant of the wrong cluster", "admin", grants(entry(OF_CLUSTER, "my-cluster", ALTER))),
    Call("grant of the cluster", "admin", grants(entry(OF_CLUSTER, "kafka-cluster", DESCRIBE, who="User:carol"))),
    Call("grant without the right", "alice", grants(entry(OF_TOPIC, "alices", CREATE, who="User:alice"))),
    Call("grant nothing", "admin", grants()),
    Call("see rights", "admin", sees_acls(), settles=True),
    Call("see rights of topics", "admin", sees_acls(OF_TOPIC)),
    Call("see rights that match", "admin", sees_acls(OF_TOPIC, "bobs-1", 2)),
    Call("see rights of a user", "admin", sees_acls(principal_filter="User:bob")),
    Call("see rights at a host", "admin", sees_acls(host_filter="10.0.0.1")),
    Call("see what is denied", "admin", sees_acls(permission_type=DENY)),
    Call("see rights without the right", "alice", sees_acls()),
    Call("bob creates his own", "bob", creates(topic("bobs-1"), topic("not-bobs"))),
    Call("bob sets what he may", "bob", alters(TOPIC, "shared", ("retention.ms", SET, "9000"))),
    Call("bob sets what he may not", "bob", alters(TOPIC, "t", ("retention.ms", SET, "9000"))),
    Call("bob deletes what he made", "bob", deletes("bobs-1")),
    Call("revoke what is not there", "admin", revokes(OF_TOPIC, "none", LITERAL)),
    Call("revoke from bob", "admin", revokes(OF_TOPIC, who="User:bob")),
    Call("revoke what matches", "admin", revokes(OF_GROUP, "g", 2)),
    Call("revoke by a wrong pattern", "admin", revokes(OF_TOPIC, "x", 0)),
    Call("revoke without the right", "alice", revokes()),
    Call("see what is left", "admin", sees_acls(), settles=True),
    Call("bob creates no more", "bob", creates(topic("bobs-2"))),
)
OF_QUOTAS: Final = (
    Call("limit", "admin", limits({"user": "bob", "client-id": "c"}, producer_byte_rate=1000.5, request_percentage=50)),
    Call("limit everybody", "admin", limits({"user": None}, controller_mutation_rate=100)),
    Call("limit an address", "admin", limits({"ip": "10.1.2.3"}, connection_creation_rate=5)),
    Call("limit for validation alone", "admin", limits({"user": "v"}, True, producer_byte_rate=1)),
    Call("limit by an unknown key", "admin", limits({"user": "bob"}, no_such=1)),
    Call("limit by another's key", "admin", limits({"ip": "10.1.2.3"}, producer_byte_rate=1)),
    Call("limit by a negative value", "admin", limits({"user": "bob"}, producer_byte_rate=-1)),
    Call("limit by nothing", "admin", limits({"user": "bob"}, producer_byte_rate=0.0)),
    Call("limit by half a byte", "admin", limits({"user": "bob"}, consumer_byte_rate=0.5)),
    Call("limit an unknown kind", "admin", limits({"group": "g"}, producer_byte_rate=1)),
    Call("limit a user at an address", "admin", limits({"user": "bob", "ip": "1.2.3.4"}, producer_byte_rate=1)),
    Call("limit no address", "admin", limits({"ip": "not an address"}, connection_creation_rate=5)),
    Call("limit an empty name", "admin", limits({"user": ""}, producer_byte_rate=1)),
    Call("limit nobody", "admin", limits({}, producer_byte_rate=1)),
    Call("limit without the right", "alice", limits({"user": "alice"}, producer_byte_rate=1e9)),
    Call("unlimit", "admin", limits({"user": "bob", "client-id": "c"}, request_percentage=None)),
    Call("unlimit what has no limit", "admin", limits({"user": "nobody"}, request_percentage=None)),
    Call("see limits", "admin", sees_limits(), settles=True),
    Call("see limits of a user", "admin", sees_limits(("user", 0, "bob"))),
    Call("see limits of a user alone", "admin", sees_limits(("user", 0, "bob"), strict=True)),
    Call("see limits of everybody", "admin", sees_limits(("user", 1, None))),
    Call("see limits of whoever is named", "admin", sees_limits(("user", 2, None), ("client-id", 2, None))),
    Call("see limits of an unknown kind", "admin", sees_limits(("group", 2, None))),
    Call("see limits by an unknown match", "admin", sees_limits(("user", 7, None))),
    Call("see limits twice", "admin", sees_limits(("user", 2, None), ("user", 2, None))),
    Call("see limits without the right", "alice", sees_limits()),
)
OF_PASSWORDS: Final = (
    Call("let in", "admin", passwords(upserts("dora"), upserts("dora", 2), upserts("emil", 2, 8192))),
    Call("let in with few iterations", "admin", passwords(upserts("f", iterations=4095), upserts("g"))),
    Call("let in with many iterations", "admin", passwords(upserts("f", iterations=16385))),
    Call("let in by an unknown mechanism", "admin", passwords(upserts("f", 9))),
    Call("let in without a name", "admin", passwords(upserts(""))),
    Call("let in twice", "admin", passwords(upserts("h"), upserts("h"))),
    Call("let in and shut out", "admin", passwords(upserts("h"), without=(("h", 1),))),
    Call("shut out who is not in", "admin", passwords(without=(("nobody", 1), ("emil", 1)))),
    Call("shut out by an unknown mechanism", "admin", passwords(without=(("dora", 5),))),
    Call("shut out without a name", "admin", passwords(without=(("", 1),))),
    Call("let in without the right", "alice", passwords(upserts("alice"))),
    Call("let in nobody", "admin", passwords()),
    Call("shut out", "admin", passwords(without=(("dora", 2),))),
    Call("see who is in", "admin", sees_passwords("dora", "emil", "nobody", "g"), settles=True),
    Call("see who is in twice", "admin", sees_passwords("dora", "dora")),
    Call("see who is in without the right", "alice", sees_passwords()),
)
OF_TOKENS: Final = (
    Call("make a token", "bob", token("User:carol")),
    Call("make a token of another", "admin", token(owner=("User", "alice"), lifetime_ms=3_600_000)),
    Call("make a token of another without the right", "alice", token(owner=("User", "bob"))),
    Call("make a token of no user", "bob", token(owner=("Group", "g"))),
    Call("make a token for a strange renewer", "bob", token("Group:g")),
    Call("make a token for too long", "bob", token(lifetime_ms=2**60)),
    Call("make a token in an old version", "alice", s.CreateDelegationTokenRequest(renewers=[], max_lifetime_ms=-1), 2),
    Call("renew", "bob", renews("make a token", 3_600_000), settles=True),
    Call("renew as the renewer", "carol", renews("make a token")),
    Call("renew as a stranger", "alice", renews("make a token")),
    Call("renew what is none", "bob", renews(None)),
    Call("renew for no time", "bob", renews("make a token", 0)),
    Call("see tokens", "admin", sees_tokens(), settles=True),
    Call("see one's own tokens", "bob", sees_tokens()),
    Call("see tokens of an owner", "alice", sees_tokens("User:alice")),
    Call("see tokens of another owner", "alice", sees_tokens("User:bob")),
    Call("expire later", "bob", expires("make a token", 60_000)),
    Call("expire as a stranger", "alice", expires("make a token")),
    Call("expire what is none", "bob", expires(None)),
    Call("expire", "bob", expires("make a token")),
    Call("expire what is gone", "bob", expires("make a token"), settles=True),
    Call("see what tokens are left", "admin", sees_tokens("User:alice"), settles=True),
)
OF_THE_CLUSTER: Final = (
    Call("elect where it is not needed", "admin", elects("t", 0, 1)),
    Call("elect in unknown partitions", "admin", elects("t", 77)),
    Call("elect in an unknown topic", "admin", elects("none", 0)),
    Call("elect uncleanly", "admin", elects("t", 0, kind=1)),
    Call("elect everywhere", "admin", elects(None)),
    Call("elect without the right", "alice", elects("t", 0)),
    Call("move to where it is", "admin", moves("t", 0, [1])),
    Call("move to an unknown broker", "admin", moves("t", 0, [NOWHERE])),
    Call("move to nowhere", "admin", moves("t", 0, [])),
    Call("move to a broker twice", "admin", moves("t", 0, [1, 1])),
    Call("move an unknown partition", "admin", moves("t", 77, [1])),
    Call("move an unknown topic", "admin", moves("none", 0, [1])),
    Call("give up no move", "admin", moves("t", 0, None)),
    Call("move without the right", "alice", moves("t", 0, [1])),
    Call("see moves", "admin", sees_moves()),
    Call("see moves of topics", "admin", sees_moves("t", "none")),
    Call("see moves without the right", "alice", sees_moves()),
    Call("unregister an unknown broker", "admin", s.UnregisterBrokerRequest(broker_id=NOWHERE)),
    Call("unregister without the right", "alice", s.UnregisterBrokerRequest(broker_id=NOWHERE)),
    Call("see the quorum", "admin", quorum()),
    Call("see the quorum of a topic", "admin", quorum("t")),
    Call("see the quorum of a partition", "admin", quorum(partition=3)),
    Call("see the quorum without the right", "alice", quorum()),
    Call("add a voter of another cluster", "admin", s.AddRaftVoterRequest(cluster_id="other", voter_id=5)),
    Call("add a voter without the right", "alice", s.AddRaftVoterRequest(cluster_id="other", voter_id=5)),
    Call("remove a voter of another cluster", "admin", s.RemoveRaftVoterRequest(cluster_id="other", voter_id=5)),
    Call("remove an unknown voter", "admin", s.RemoveRaftVoterRequest(cluster_id=None, voter_id=5)),
    Call("remove a voter without the right", "alice", s.RemoveRaftVoterRequest(cluster_id=None, voter_id=5)),
    Call("raise an unknown feature", "admin", features(("no.such", 1, 1))),
    Call("raise too far", "admin", features(("metadata.version", 99, 1))),
    Call("raise to what it is", "admin", features(("metadata.version", 30, 1))),
    Call("lower by raising", "admin", features(("metadata.version", 29, 1))),
    Call("lower for validation alone", "admin", features(("metadata.version", 29, 2), validate_only=True)),
    Call("lower without safety", "admin", features(("metadata.version", 8, 3), validate_only=True)),
    Call("raise in an unknown way", "admin", features(("group.version", 1, 9))),
    Call("raise twice", "admin", features(("group.version", 1, 1), ("group.version", 0, 2))),
    Call("raise nothing", "admin", features()),
    Call("raise one and a wrong one", "admin", features(("group.version", 0, 2), ("no.such", 1, 1))),
    Call("lower a feature", "admin", features(("transaction.version", 1, 2))),
    Call("raise without the right", "alice", features(("group.version", 1, 1))),
    Call("raise in an old version", "admin", features(("no.such", 1, 1)), 1),
)
CALLS: Final = (*OF_TOPICS, *OF_CONFIGS, *OF_RIGHTS, *OF_QUOTAS, *OF_PASSWORDS, *OF_TOKENS, *OF_THE_CLUSTER)
