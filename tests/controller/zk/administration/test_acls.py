"""ACLs in znodes, as AclAuthorizer keeps them: created, deleted, described; and applied to requests."""

import json
from typing import Any

import pytest

import kcore
from controller.zk import admin
from controller.zk.admin import small
from controller.zk.tree import Cluster
from kcore.errors import TableError
from kcore.metadata.acl_codes import (
    ALL,
    ALLOW,
    ALTER,
    ANY,
    CLUSTER,
    CLUSTER_ACTION,
    DENY,
    DESCRIBE,
    GROUP,
    LITERAL,
    MATCH,
    PREFIXED,
    READ,
    TOPIC,
    TRANSACTIONAL_ID,
    WRITE,
)
from kcore.metadata.principal import KafkaPrincipal
from kcore.metadata.zookeeper import znode_acls
from kcore.metadata.zookeeper.znode_acls import AclBinding
from kcore.metadata.zookeeper.znode_operations import MOST_BYTES, ReadNodes, WriteNodes
from kcore.node.zk.acls import (
    ACL_AUTHORIZER,
    AclAuthorizer,
    AclAuthorizerSettings,
    ZkAcls,
    acl_authorizer_settings,
)
from kcore.node.zk.admin.acls import FAILED, RESOURCES_AT_ONCE, TOO_LARGE, describe_acls
from kcore.node.zk.znode_steps import Pause
from kcore.protocol_errors import ApiException, Errors
from kcore.schema.acls import (
    AclCreation,
    CreateAclsRequest,
    DeleteAclsFilter,
    DeleteAclsRequest,
    DescribeAclsRequest,
)
from kcore.steps import finished

SETTINGS = AclAuthorizerSettings(frozenset({"User:root"}))
T = "/kafka-acl/Topic/t"


def secured(**config: Any) -> Cluster:
    """A controller with an authorizer that has read what there is: nothing."""
    cluster = small([1], authorizer=SETTINGS, **config)
    for path in znode_acls.PERSISTENT_PATHS:
        cluster.tree.create(path, parents=True)
    assert cluster.active.acls is not None
    cluster.active.acls.is_read = True
    return cluster


def creation(
    name: str = "t",
    principal: str = "User:alice",
    operation: int = READ,
    permission: int = ALLOW,
    *,
    pattern: int = LITERAL,
    kind: int = TOPIC,
    host: str = "*",
) -> AclCreation:
    return AclCreation(
        resource_type=kind,
        resource_name=name,
        resource_pattern_type=pattern,
        principal=principal,
        host=host,
        operation=operation,
        permission_type=permission,
    )


def create(cluster: Cluster, *rows: AclCreation) -> list[tuple[Errors, str]]:
    response = admin.ask(cluster, CreateAclsRequest(creations=[*rows]))
    decoded = kcore.decode("CreateAclsResponse", 3, kcore.encode(response, 3))
    return [(Errors(each.error_code), each.error_message) for each in decoded.results]


def a_filter(
    name: str | None = None, kind: int = ANY, pattern: int = ANY, principal: str | None = None
) -> DeleteAclsFilter:
    return DeleteAclsFilter(
        resource_type_filter=kind,
        resource_name_filter=name,
        pattern_type_filter=pattern,
        principal_filter=principal,
        host_filter=None,
        operation=ANY,
        permission_type=ANY,
    )


def delete(cluster: Cluster, *filters: DeleteAclsFilter) -> list[list[str]]:
    """The names and principals that each filter found."""
    response = admin.ask(cluster, DeleteAclsRequest(filters=[*filters]))
    decoded = kcore.decode("DeleteAclsResponse", 3, kcore.encode(response, 3))
    assert {each.error_code for each in decoded.filter_results} == {0}
    return [
        sorted(f"{each.resource_name} {each.principal} {Errors(each.error_code).name}" for each in found.matching_acls)
        for found in decoded.filter_results
    ]


def described(cluster: Cluster, kind: int = ANY) -> list[tuple[int, int, str, list[str]]]:
    request = DescribeAclsRequest(
        resource_type_filter=kind,
        resource_name_filter=None,
        pattern_type_filter=ANY,
        principal_filter=None,
        host_filter=None,
        operation=ANY,
        permission_type=ANY,
    )
    response = finished(describe_acls(cluster.active.acls, request))
    decoded = kcore.decode("DescribeAclsResponse", 3, kcore.encode(response, 3))
    return [
        (each.resource_type, each.pattern_type, each.resource_name, [acl.principal for acl in each.acls])
        for each in decoded.resources
    ]


def notes(cluster: Cluster, path: str) -> list[bytes]:
    return [cluster.tree.nodes[f"{path}/{each}"].data for each in sorted(cluster.tree.children[path])]


def allows(cluster: Cluster, name: str, operation: int, kind: int = CLUSTER, resource: str = "kafka-cluster") -> bool:
    assert cluster.active.acls is not None
    authorizer = AclAuthorizer(SETTINGS, cluster.active.acls)
    return authorizer.allows(KafkaPrincipal(name), "10.0.0.1", operation, kind, resource)


def test_acl_entries_are_written_as_kafka_does_with_a_notification() -> None:
    cluster = secured()
    rows = [creation(), creation(operation=ALL, permission=DENY, principal="User:bob", host="10.0.0.2")]
    prefixed = creation("tx-", kind=TRANSACTIONAL_ID, pattern=PREFIXED, operation=DESCRIBE)
    assert create(cluster, *rows, prefixed) == [(Errors.NONE, "")] * 3
    assert cluster.tree.nodes[T].data == (
        b'{"acls":['
        b'{"principal":"User:alice","permissionType":"Allow","host":"*","operation":"Read"},'
        b'{"principal":"User:bob","permissionType":"Deny","host":"10.0.0.2","operation":"All"}],"version":1}'
    )
    node = cluster.tree.nodes["/kafka-acl-extended/prefixed/TransactionalId/tx-"]
    assert json.loads(node.data)["acls"][0]["operation"] == "Describe"
    assert notes(cluster, "/kafka-acl-changes") == [b"TOPIC:t"]
    assert notes(cluster, "/kafka-acl-extended-changes") == [
        b'{"version":1,"resourceType":"TRANSACTIONAL_ID","name":"tx-","patternType":"PREFIXED"}'
    ]
    assert described(cluster) == [
        (TOPIC, LITERAL, "t", ["User:alice", "User:bob"]),
        (TRANSACTIONAL_ID, PREFIXED, "tx-", ["User:alice"]),
    ]
    assert allows(cluster, "alice", READ, TOPIC, "t") and not allows(cluster, "bob", READ, TOPIC, "t")


def test_an_entry_that_is_there_writes_nothing() -> None:
    cluster = secured()
    create(cluster, creation())
    assert create(cluster, creation(), creation()) == [(Errors.NONE, "")] * 2
    assert cluster.tree.nodes[T].version == 0 and len(notes(cluster, "/kafka-acl-changes")) == 1


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (creation("a/b"), FAILED),
        (creation("."), FAILED),
        (creation("a\x01"), FAILED),
        (creation("\ue000"), FAILED),
        (creation(principal="alice"), FAILED),
        (creation(operation=99), FAILED),
        (creation(kind=9), FAILED),
        (creation(""), "Invalid empty resource name"),
        (creation("other", kind=CLUSTER), "The only valid name for the CLUSTER resource is kafka-cluster"),
        (creation(pattern=MATCH), "ANY and MATCH are for filters: no entry can have them."),
        (creation(operation=ANY), "ANY and MATCH are for filters: no entry can have them."),
    ],
)
def test_what_cannot_be_an_entry_costs_no_other(row: AclCreation, message: str) -> None:
    cluster = secured()
    assert create(cluster, row, creation()) == [(Errors.INVALID_REQUEST, message), (Errors.NONE, "")]
    assert {path for path in cluster.tree.nodes if path.startswith("/kafka-acl/Topic/")} == {T}


def test_what_another_writes_meanwhile_is_kept() -> None:
    """The write is made only if the znode has the version that was read; a broker's entry is not lost."""
    cluster = secured()
    create(cluster, creation())
    theirs = AclBinding(TOPIC, LITERAL, "t", "User:theirs", "*", READ, ALLOW)

    def before(effect: object) -> None:
        if isinstance(effect, WriteNodes):
            cluster.before = lambda _: None
            ours = AclBinding(TOPIC, LITERAL, "t", "User:alice", "*", READ, ALLOW)
            cluster.tree.set_data(T, znode_acls.encode_acls([ours, theirs]))

    cluster.before = before
    assert create(cluster, creation(principal="User:bob")) == [(Errors.NONE, "")]
    kept = znode_acls.decode_acls((TOPIC, LITERAL, "t"), cluster.tree.nodes[T].data)
    assert {each.principal for each in kept} == {"User:alice", "User:theirs", "User:bob"}


def test_whoever_is_always_faster_wins() -> None:
    cluster = secured()
    create(cluster, creation())

    def before(effect: object) -> None:
        if isinstance(effect, WriteNodes):
            cluster.tree.set_data(T, cluster.tree.nodes[T].data)

    cluster.before = before
    [(error, message)] = create(cluster, creation(principal="User:bob"))
    assert error is Errors.UNKNOWN_SERVER_ERROR and "10 attempts" in message
    assert described(cluster) == [(TOPIC, LITERAL, "t", ["User:alice"])]


@pytest.mark.parametrize("writes", [True, False])
def test_entries_that_a_node_reads_during_a_long_request_are_not_replaced_by_older_ones(writes: bool) -> None:
    """A request for many resources pauses. Another node then removes a right, and a notification tells of it."""
    cluster, names = secured(), [f"t{number:03}" for number in range(2 * RESOURCES_AT_ONCE)]
    resource, acls = (TOPIC, LITERAL, names[-1]), cluster.active.acls
    assert acls is not None
    if not writes:
        create(cluster, *map(creation, names))
    done = [WriteNodes if writes else ReadNodes, Pause]

    def before(effect: object) -> None:
        """At the first pause after the request has written or read the znodes, the right is gone."""
        if done and isinstance(effect, done[0]):
            done.pop(0)
            if not done:
                cluster.tree.set_data(znode_acls.resource_path(resource), znode_acls.encode_acls([]))
                acls.update(resource, ())

    cluster.before = before
    assert {error for error, _ in create(cluster, *map(creation, names))} == {Errors.NONE}
    assert not done and not allows(cluster, "alice", READ, TOPIC, names[-1])
    assert allows(cluster, "alice", READ, TOPIC, names[0])
    create(cluster, creation(names[-1]))
    assert allows(cluster, "alice", READ, TOPIC, names[-1]), "the next request finds no change that it must keep"


def test_a_resource_has_no_more_entries_than_zookeeper_takes() -> None:
    cluster = secured()
    long = "User:" + "u" * 30_000
    rows = [creation(principal=f"{long}{number}") for number in range(MOST_BYTES // 30_000)]
    assert {error for error, _ in create(cluster, *rows[:-5])} == {Errors.NONE}
    assert create(cluster, *rows) == [(Errors.INVALID_REQUEST, TOO_LARGE)] * len(rows)


def test_entries_go_with_the_first_filter_that_finds_them() -> None:
    cluster = secured()
    create(
        cluster, creation(), creation(principal="User:bob"), creation("g", kind=GROUP), creation("t", pattern=PREFIXED)
    )
    found = delete(cluster, a_filter("t", TOPIC, LITERAL, "User:bob"), a_filter("topic", TOPIC, MATCH), a_filter("t"))
    assert found == [["t User:bob NONE"], ["t User:alice NONE"], ["t User:alice NONE"]]
    assert T not in cluster.tree.nodes, "without entries there is no znode"
    assert described(cluster) == [(GROUP, LITERAL, "g", ["User:alice"])]
    assert notes(cluster, "/kafka-acl-changes") == [b"TOPIC:t", b"GROUP:g", b"TOPIC:t"]


def test_an_entry_without_a_notification_is_deleted_by_its_name() -> None:
    cluster = secured()
    theirs = AclBinding(TOPIC, LITERAL, "t", "User:theirs", "*", READ, ALLOW)
    cluster.tree.create(T, znode_acls.encode_acls([theirs]))
    assert delete(cluster, a_filter("t", TOPIC, ANY)) == [["t User:theirs NONE"]]
    assert delete(cluster, a_filter("t", TOPIC, ANY), a_filter("../t", TOPIC, LITERAL)) == [[], []]


def test_a_znode_that_cannot_be_read_is_left_alone() -> None:
    cluster = secured()
    cluster.tree.create(T, b"no JSON")
    [(error, _)] = create(cluster, creation())
    assert error is Errors.UNKNOWN_SERVER_ERROR and cluster.tree.nodes[T].data == b"no JSON"
    assert delete(cluster, a_filter("t", TOPIC, LITERAL)) == [[]]


def test_without_an_authorizer_there_are_no_acls() -> None:
    cluster = small([1])
    assert create(cluster, creation()) == [(Errors.SECURITY_DISABLED, "No Authorizer is configured.")]
    [found] = admin.ask(cluster, DeleteAclsRequest(filters=[a_filter()])).filter_results
    assert found.error_code == Errors.SECURITY_DISABLED
    refusal: Any = finished(describe_acls(None, DescribeAclsRequest()))
    assert refusal.error_code == Errors.SECURITY_DISABLED


def test_who_is_no_controller_says_so_of_every_entry() -> None:
    cluster = Cluster(authorizer=SETTINGS)
    assert create(cluster, creation(), creation()) == [(Errors.NOT_CONTROLLER, None)] * 2
    [found] = admin.ask(cluster, DeleteAclsRequest(filters=[a_filter()])).filter_results
    assert found.error_code == Errors.NOT_CONTROLLER


# Decided.


def test_nobody_but_super_users_may_do_anything_before_the_acls_are_read() -> None:
    acls = ZkAcls()
    authorizer = AclAuthorizer(AclAuthorizerSettings(frozenset({"User:root"}), True), acls)
    assert authorizer.allows(KafkaPrincipal("root"), "::1", ALTER)
    assert not authorizer.allows(KafkaPrincipal("a"), "::1", ALTER)
    assert not authorizer.allows_on_any(KafkaPrincipal("a"), "::1", WRITE, TOPIC)
    acls.is_read = True
    assert authorizer.allows(KafkaPrincipal("a"), "::1", ALTER)


def test_a_resource_whose_entries_cannot_be_read_is_denied() -> None:
    cluster = secured()
    create(cluster, creation())
    assert cluster.active.acls is not None
    cluster.active.acls.update((TOPIC, LITERAL, "t"), None)
    everyone = AclAuthorizer(AclAuthorizerSettings(frozenset({"User:root"}), True), cluster.active.acls)
    assert [everyone.allows(KafkaPrincipal(name), "::1", READ, TOPIC, "t") for name in ("alice", "root")] == [
        False,
        True,
    ]
    assert described(cluster) == [], "the entry that denies it is none of the cluster's"
    create(cluster, creation())
    assert allows(cluster, "alice", READ, TOPIC, "t")
    assert described(cluster) == [(TOPIC, LITERAL, "t", ["User:alice"])], "it can be read again"


def test_resources_whose_znodes_are_gone_have_no_entries() -> None:
    """Such as those that went while the session was over."""
    cluster = secured()
    create(cluster, creation(), creation("u"))
    acls = cluster.active.acls
    assert acls is not None
    acls.update((TOPIC, LITERAL, "v"), None)
    acls.keep_only([(TOPIC, LITERAL, "u")])
    assert acls.resources == {(TOPIC, LITERAL, "u")}
    assert [allows(cluster, "alice", READ, TOPIC, name) for name in "tu"] == [False, True]
    everyone = AclAuthorizer(AclAuthorizerSettings(frozenset(), True), acls)
    assert everyone.allows(KafkaPrincipal("bob"), "::1", READ, TOPIC, "v"), "nothing denies it any more"


def test_a_right_is_given_and_taken() -> None:
    cluster = secured()
    assert not allows(cluster, "broker", CLUSTER_ACTION)
    create(cluster, creation("kafka-cluster", "User:broker", CLUSTER_ACTION, kind=CLUSTER))
    assert allows(cluster, "broker", CLUSTER_ACTION) and not allows(cluster, "broker", ALTER)
    create(cluster, creation("kafka-cluster", "User:broker", ALL, DENY, kind=CLUSTER, host="10.0.0.1"))
    assert not allows(cluster, "broker", CLUSTER_ACTION)


@pytest.mark.parametrize(
    ("rows", "allowed"),
    [
        ([creation(operation=WRITE)], True),
        ([creation()], False),  # READ
        ([creation(operation=WRITE), creation(operation=WRITE, permission=DENY)], False),
        ([creation("ab", operation=WRITE), creation("a", operation=ALL, permission=DENY, pattern=PREFIXED)], False),
        ([creation("ab", operation=WRITE), creation("b", operation=ALL, permission=DENY, pattern=PREFIXED)], True),
        ([creation("a", pattern=PREFIXED, operation=WRITE), creation("ab", operation=WRITE, permission=DENY)], True),
        ([creation("*", operation=WRITE), creation("ab", operation=WRITE, permission=DENY)], True),
        ([creation(operation=WRITE), creation("*", operation=WRITE, permission=DENY)], False),
    ],
)
def test_rights_on_any_resource_of_a_type(rows: list[AclCreation], allowed: bool) -> None:
    cluster = secured()
    create(cluster, *rows)
    assert cluster.active.acls is not None
    authorizer = AclAuthorizer(SETTINGS, cluster.active.acls)
    assert authorizer.allows_on_any(KafkaPrincipal("alice"), "10.0.0.1", WRITE, TOPIC) is allowed


# Znodes.


@pytest.mark.parametrize("pattern", [LITERAL, PREFIXED])
def test_notes_are_read_as_they_are_written(pattern: int) -> None:
    for kind in znode_acls.RESOURCE_TYPES:
        resource = kind, pattern, "a:b c"
        assert znode_acls.decode_acl_change("/x", pattern, znode_acls.encode_acl_change(resource)) == resource


@pytest.mark.parametrize(
    "data",
    [
        b"[]",
        b'{"version":2,"acls":[]}',
        b'{"version":1}',
        b'{"version":1,"acls":[{"principal":"User:a","permissionType":"Allow","operation":"Fly","host":"*"}]}',
        b'{"version":1,"acls":[{"principal":7,"permissionType":"Allow","operation":"Read","host":"*"}]}',
    ],
)
def test_other_data_is_a_fault(data: bytes) -> None:
    with pytest.raises(TableError, match="/kafka-acl/Topic/t"):
        znode_acls.decode_acls((TOPIC, LITERAL, "t"), data)
    with pytest.raises(TableError):
        znode_acls.decode_acl_change("/x", PREFIXED, data)
    with pytest.raises(TableError):
        znode_acls.decode_acl_change("/x", LITERAL, b"Nothing:t")


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ({}, None),
        ({"super.users": "User:a"}, None),
        (
            {
                "authorizer.class.name": ACL_AUTHORIZER,
                "super.users": "User:a; User:CN=b,O=c",
            },
            AclAuthorizerSettings(frozenset({"User:a", "User:CN=b,O=c"})),
        ),
        (
            {
                "authorizer.class.name": ACL_AUTHORIZER,
                "allow.everyone.if.no.acl.found": "TRUE",
            },
            AclAuthorizerSettings(frozenset(), True),
        ),
    ],
)
def test_settings_are_named_as_kafkas(given: dict[str, str], found: AclAuthorizerSettings | None) -> None:
    assert acl_authorizer_settings(given) == found


@pytest.mark.parametrize(
    "given",
    [
        {"authorizer.class.name": "my.Authorizer"},
        {"authorizer.class.name": ACL_AUTHORIZER, "super.users": "alice"},
        {"authorizer.class.name": ACL_AUTHORIZER, "allow.everyone.if.no.acl.found": "yes"},
    ],
)
def test_wrong_settings_are_refused(given: dict[str, str]) -> None:
    with pytest.raises(ApiException):
        acl_authorizer_settings(given)
