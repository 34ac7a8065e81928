"""StandardAuthorizer's rules over the image's ACLs."""

import random
from itertools import count
from typing import Any

import pytest

from controller.kraft.contexts import a_context, decision_of
from kcore import schema as s
from kcore.broker.metadata_delta.loader import MetadataLoader
from kcore.controller.kraft.handlers import HANDLERS
from kcore.controller.kraft.kraft_context import ControllerContext, RequestInfo
from kcore.controller.kraft.snapshot_loading import SnapshotLoading
from kcore.metadata.acl_codes import (
    ALTER,
    ALTER_CONFIGS,
    CLUSTER,
    CLUSTER_ACTION,
    CLUSTER_NAME,
    DELETE,
    DESCRIBE,
    DESCRIBE_CONFIGS,
    OPERATIONS,
    READ,
    TOPIC,
    WRITE,
)
from kcore.metadata.image.image_writer import records_of
from kcore.metadata.principal import KafkaPrincipal
from kcore.node.acls import key_of
from kcore.node.kraft.image_indexes import AclIndex
from kcore.protocol_errors import Errors
from kcore.raft.log.raft_log import SnapshotPiece
from kcore.raft.state_machine import SnapshotReader
from kcore.replication.raft_log import OffsetAndEpoch
from kcore.schema.acls import AclCreation, DeleteAclsFilter
from kcore.schema.metadata_records_security import AccessControlEntryRecord, RemoveAccessControlEntryRecord
from kcore.schema.quotas import AlterClientQuotasRequestEntryData
from kcore.schema.scram import ScramCredentialDeletion
from kcore.schema.structure import Message
from kcore.steps import finished
from kcore.types import Uuid
from kcore.wire.encoded_records import EncodedRecords

LITERAL, PREFIXED, DENY, ALLOW, ALL = 3, 4, 2, 3, 2
IDS = count(1)


def entry(
    name: str,
    principal: str = "User:alice",
    operation: int = READ,
    permission: int = ALLOW,
    pattern: int = LITERAL,
    host: str = "*",
    resource_type: int = TOPIC,
) -> AccessControlEntryRecord:
    acl_id = Uuid(next(IDS).to_bytes(16, "big"))
    return AccessControlEntryRecord(
        id=acl_id,
        resource_type=resource_type,
        resource_name=name,
        pattern_type=pattern,
        principal=principal,
        host=host,
        operation=operation,
        permission_type=permission,
    )


def asked_by(name: str = "alice", address: str = "10.0.0.1") -> RequestInfo:
    return RequestInfo(0, 0, 0, KafkaPrincipal(name), address)


def a_world(*acls: AccessControlEntryRecord, everyone: bool = False) -> ControllerContext:
    context = a_context(has_authorizer=True, super_users=("User:root",), allow_everyone_if_no_acl_found=everyone)
    for acl in acls:
        context.image.apply(acl)
    return context


def test_without_an_authorizer_everybody_may_do_everything() -> None:
    assert a_context().is_authorized(asked_by(), CLUSTER_ACTION)


ENTRY = {"resource_type": TOPIC, "resource_name": "t", "principal": "User:a", "host": "*", "operation": READ}
FILTER = {"resource_type_filter": 1, "pattern_type_filter": 1, "operation": 1, "permission_type": 1}
OF_THE_CLUSTER: list[tuple[Message, int]] = [
    (s.CreateAclsRequest(creations=[AclCreation(**ENTRY, resource_pattern_type=3, permission_type=3)]), ALTER),
    (s.DeleteAclsRequest(filters=[DeleteAclsFilter(**FILTER)]), ALTER),
    (s.DescribeAclsRequest(**FILTER), DESCRIBE),
    (s.AlterUserScramCredentialsRequest(deletions=[ScramCredentialDeletion(name="u", mechanism=1)]), ALTER),
    (s.DescribeUserScramCredentialsRequest(users=None), DESCRIBE),
    (s.AlterClientQuotasRequest(entries=[AlterClientQuotasRequestEntryData()]), ALTER_CONFIGS),
    (s.UpdateFeaturesRequest(), ALTER),
    (s.UnregisterBrokerRequest(), ALTER),
    (s.UnregisterControllerRequest(), ALTER),
    (s.ElectLeadersRequest(topic_partitions=None), ALTER),
    (s.AlterPartitionReassignmentsRequest(), ALTER),
    (s.ListPartitionReassignmentsRequest(topics=None), DESCRIBE),
    (s.DescribeClusterRequest(endpoint_type=2), ALTER),
    *[
        (kind(), CLUSTER_ACTION)
        for kind in (
            *(s.BrokerRegistrationRequest, s.BrokerHeartbeatRequest, s.ControllerRegistrationRequest),
            *(s.AllocateProducerIdsRequest, s.AlterPartitionRequest, s.AssignReplicasToDirsRequest),
        )
    ],
]
BY_ITEM = {
    *(s.CreateTopicsRequest, s.DeleteTopicsRequest, s.CreatePartitionsRequest),
    *(s.AlterConfigsRequest, s.IncrementalAlterConfigsRequest, s.DescribeConfigsRequest),
    *(s.CreateDelegationTokenRequest, s.RenewDelegationTokenRequest, s.ExpireDelegationTokenRequest),
    s.DescribeDelegationTokenRequest,
}
IMPLIED = {DESCRIBE: {DESCRIBE, READ, WRITE, DELETE, ALTER, ALL}}


def test_every_request_has_its_right() -> None:
    assert {*HANDLERS} - BY_ITEM - {s.ControlledShutdownRequest} == {type(each) for each, _ in OF_THE_CLUSTER}


@pytest.mark.parametrize(("request_", "right"), OF_THE_CLUSTER, ids=lambda each: type(each).__name__)
def test_a_request_about_the_cluster_needs_one_right_to_it(request_: Message, right: int) -> None:
    """authorizeClusterOperation in ControllerApis, handler by handler."""
    for operation in OPERATIONS:
        given = entry(CLUSTER_NAME, operation=operation, resource_type=CLUSTER)
        decision = decision_of(a_world(given), request_, asked_by()._replace(version=request_.versions.highest))
        may = operation in IMPLIED.get(right, {right, ALL})
        assert (Errors.CLUSTER_AUTHORIZATION_FAILED in errors_in(decision.response)) is not may, OPERATIONS[operation]
        assert may or not decision.records


def errors_in(response: Any) -> set[int]:
    """The errors of the response and of its items."""
    items = [each for name in type(response).__slots__ if isinstance(each := getattr(response, name), list)]
    parts = [response, *(each for listed in items for each in listed)]
    return {each.error_code for each in parts if hasattr(each, "error_code")}


def test_a_super_user_may_do_what_is_denied() -> None:
    context = a_world(entry("t", "User:*", ALL, DENY))
    assert context.is_authorized(asked_by("root"), READ, TOPIC, "t")
    assert not context.is_authorized(asked_by("alice"), READ, TOPIC, "t")


@pytest.mark.parametrize("everyone", [False, True])
def test_a_resource_without_entries(everyone: bool) -> None:
    context = a_world(entry("t", "User:bob"), everyone=everyone)
    assert context.is_authorized(asked_by(), READ, TOPIC, "other") is everyone
    assert not context.is_authorized(asked_by(), READ, TOPIC, "t")


@pytest.mark.parametrize(
    ("allowed", "asked", "may"),
    [
        *[(operation, DESCRIBE, True) for operation in (READ, WRITE, ALTER, DESCRIBE, ALL)],
        *[(operation, DESCRIBE, False) for operation in (CLUSTER_ACTION, DESCRIBE_CONFIGS, ALTER_CONFIGS)],
        (ALTER_CONFIGS, DESCRIBE_CONFIGS, True),
        (DESCRIBE_CONFIGS, ALTER_CONFIGS, False),
        (READ, WRITE, False),
    ],
)
def test_what_an_allowed_operation_implies(allowed: int, asked: int, may: bool) -> None:
    assert a_world(entry("t", operation=allowed)).is_authorized(asked_by(), asked, TOPIC, "t") is may


def test_a_denied_operation_implies_nothing() -> None:
    context = a_world(entry("t", operation=DESCRIBE), entry("t", operation=READ, permission=DENY))
    assert context.is_authorized(asked_by(), DESCRIBE, TOPIC, "t")
    assert not context.is_authorized(asked_by(), READ, TOPIC, "t")


def test_an_entry_of_a_host() -> None:
    context = a_world(entry("t", host="10.0.0.1"))
    assert context.is_authorized(asked_by(address="10.0.0.1"), READ, TOPIC, "t")
    assert not context.is_authorized(asked_by(address="10.0.0.2"), READ, TOPIC, "t")


@pytest.mark.parametrize(
    ("address", "host"),
    [
        ("::1", "0:0:0:0:0:0:0:1"),
        ("fe80::a:b", "fe80:0:0:0:0:0:a:b"),
        ("fe80::1%eth0", "fe80:0:0:0:0:0:0:1%eth0"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("10.0.0.1", "10.0.0.1"),
    ],
)
def test_hosts_are_named_as_java_names_them(address: str, host: str) -> None:
    assert a_world(entry("t", host=host)).is_authorized(asked_by(address=address), READ, TOPIC, "t")


def test_names_that_are_authorized() -> None:
    context = a_world(entry("logs-", pattern=PREFIXED), entry("logs-secret", permission=DENY))
    names = ["logs-a", "logs-secret", "log", "logs-a"]
    assert finished(context.filter_by_authorized(asked_by(), READ, TOPIC, names)) == {"logs-a"}


def test_entries_that_are_taken_back_no_longer_count() -> None:
    context = a_world()
    context.image.keep_journal()
    acl = entry("t")
    context.image.begin(0)
    context.image.apply(acl, 0)
    context.image.commit(1)
    assert context.is_authorized(asked_by(), READ, TOPIC, "t")
    context.image.begin(1)
    context.image.apply(RemoveAccessControlEntryRecord(id=acl.id), 1)
    assert not context.is_authorized(asked_by(), READ, TOPIC, "t")
    context.image.revert_to(1)
    assert context.is_authorized(asked_by(), READ, TOPIC, "t")


def test_of_another_image_the_entries_are_others() -> None:
    """Such as that of a snapshot which the controller has loaded."""
    context, other = a_world(entry("t")), a_world(entry("u"))
    assert context.is_authorized(asked_by(), READ, TOPIC, "t")
    context.image = other.image
    assert not context.is_authorized(asked_by(), READ, TOPIC, "t")
    assert context.is_authorized(asked_by(), READ, TOPIC, "u")


def test_the_index_follows_each_change() -> None:
    """A query after a hundred thousand changes would otherwise hold the loop."""
    context, added = a_world(entry("t")), entry("u")
    index = AclIndex.of(context.image)
    context.image.apply(added)
    assert key_of(added) in index and AclIndex.of(context.image) is index
    context.image.apply(RemoveAccessControlEntryRecord(id=added.id))
    assert key_of(added) not in index


@pytest.mark.parametrize("reads", ["a controller", "a broker"])
def test_the_index_of_a_snapshot_grows_with_its_slices(reads: str, monkeypatch: pytest.MonkeyPatch) -> None:
    context = a_world(entry("t"), entry("u"))
    records = EncodedRecords.joined([each for each in records_of(context.image) if len(each)])
    data = b"".join(bytes(each) for each in records.batches(0, epoch=1, timestamp=0))
    reader = SnapshotReader(OffsetAndEpoch(9, 1), lambda at, size: SnapshotPiece(data[at : at + size], len(data)))
    changed: list[Uuid] = []
    monkeypatch.setattr(AclIndex, "on_change", lambda self, key, value: changed.append(key))
    if reads == "a controller":
        loading = SnapshotLoading(reader, context.config)
        while loading.read_slice():
            pass
        image = loading.whole()
    else:
        loader = MetadataLoader()
        loader.on_snapshot(reader)
        while not loader.end_offset:
            loader.on_read_slice()
        image = loader.image
    assert changed == [*image.acls] == [*context.image.acls]
    AclIndex.of(image)
    assert len(changed) == 2, "a query adds nothing"


def slowly(context: ControllerContext, info: RequestInfo, operation: int, name: str) -> bool:
    """The rule over all entries, one after the other."""
    found = [
        acl
        for acl in context.image.acls.values()
        if acl.resource_type == TOPIC
        and (name.startswith(acl.resource_name) if acl.pattern_type == PREFIXED else acl.resource_name in (name, "*"))
    ]
    if not found:
        return context.config.node.allow_everyone_if_no_acl_found
    verdicts = set()
    for acl in found:
        implied = {DESCRIBE: {READ, WRITE, ALTER, DESCRIBE}}.get(operation, {operation})
        wanted = implied if acl.permission_type == ALLOW else {operation}
        if (
            acl.principal in (f"User:{info.principal.name}", "User:*")
            and acl.host in ("*", info.client_address)
            and (acl.operation == ALL or acl.operation in wanted)
        ):
            verdicts.add(acl.permission_type)
    return verdicts == {ALLOW}


def test_random_entries_come_and_go() -> None:
    dice = random.Random(5)
    names = ["a", "ab", "abc", "b", "*", "abd"]
    for everyone in (False, True):
        context = a_world(everyone=everyone)
        for _ in range(600):
            if context.image.acls and dice.random() < 0.5:
                victim = dice.choice(list(context.image.acls))
                context.image.apply(RemoveAccessControlEntryRecord(id=victim))
            else:
                context.image.apply(
                    entry(
                        dice.choice(names),
                        dice.choice(["User:alice", "User:bob", "User:*"]),
                        dice.choice([ALL, READ, WRITE, ALTER, DESCRIBE]),
                        dice.choice([ALLOW, ALLOW, DENY]),
                        dice.choice([LITERAL, PREFIXED]),
                        dice.choice(["*", "10.0.0.1"]),
                    )
                )
            info = asked_by(dice.choice(["alice", "bob"]), dice.choice(["10.0.0.1", "10.0.0.2"]))
            operation, name = dice.choice([READ, WRITE, DESCRIBE]), dice.choice([*names, "abcdef", "c"])
            assert context.is_authorized(info, operation, TOPIC, name) is slowly(context, info, operation, name)
