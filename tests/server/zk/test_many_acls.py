"""Nodes of ZooKeeper mode describe and delete many ACLs in parts: the event loop does other work between two parts."""

from typing import Any

import pytest

from controller.zk import admin
from controller.zk.administration.test_acls import secured
from kcore.metadata.acl_codes import ALLOW, ANY, LITERAL, TOPIC, WRITE
from kcore.metadata.zookeeper.znode_acls import AclBinding
from kcore.net.request_context import ClientSession, RequestContext
from kcore.node.zk.acls import AclAuthorizer, AclAuthorizerSettings, ZkAcls
from kcore.node.zk.admin.acls import describe_acls
from kcore.schema.acls import DeleteAclsFilter, DeleteAclsRequest, DescribeAclsRequest
from kcore.schema.headers import RequestHeader
from kcore.server.zk_broker.zk_security_requests import SecurityAdmin
from kcore.server.zk_controller.zk_controller_metrics import ControllerMetrics
from kcore.server.zk_controller.zk_controller_request_handlers import ZkControllerRequestHandlers
from kcore.server.zk_node.relay import Address
from net.loops import story, with_turns_of_others

MANY = 4_500
NAMES = sorted(f"name-{number}" for number in range(MANY))
READ = MANY // 500 + (MANY // 500 - 1) + MANY // 500  # Parts that compare, sort and merge.
ANY_ACL = {
    "resource_type_filter": ANY,
    "resource_name_filter": None,
    "pattern_type_filter": ANY,
    "principal_filter": None,
    "host_filter": None,
    "operation": ANY,
    "permission_type": ANY,
}


def fill(acls: ZkAcls) -> ZkAcls:
    """An entry of each of the topics, the last name first."""
    acls.is_read = True
    for name in reversed(NAMES):
        resource = TOPIC, LITERAL, name
        acls.update(resource, [AclBinding(*resource, "User:alice", "*", WRITE, ALLOW)])
    return acls


def test_many_acls_are_described_as_they_are_when_the_description_begins() -> None:
    acls = fill(ZkAcls())
    steps = describe_acls(acls, DescribeAclsRequest(**ANY_ACL))
    next(steps)
    for name in (NAMES[0], NAMES[-1]):
        acls.update((TOPIC, LITERAL, name), [])
    parts = 1
    response: Any = None
    while response is None:
        try:
            next(steps)
            parts += 1
        except StopIteration as done:
            response = done.value
    assert [each.resource_name for each in response.resources] == NAMES
    assert parts == READ + MANY // 250


async def no_brokers() -> list[Address]:
    return []


@pytest.mark.parametrize("server", ["controller", "broker"])
@story
async def test_others_are_served_while_many_acls_are_described(server: str) -> None:
    """The active controller and a standby do the same."""
    authorizer = AclAuthorizer(AclAuthorizerSettings(frozenset({"User:ANONYMOUS"})), fill(ZkAcls()))
    request: Any = DescribeAclsRequest(**ANY_ACL)
    context = RequestContext("a test", 1, RequestHeader(), ClientSession("PLAINTEXT", "127.0.0.1"))
    if server == "controller":
        handlers = ZkControllerRequestHandlers(print, lambda: None, no_brokers, ControllerMetrics(), authorizer)
        work = handlers._handle(context, request)
    else:
        unused: Any = None
        work = SecurityAdmin(unused, authorizer.acls, unused, None, lambda: 0, migrates=False).answer(context, request)
    response: Any
    response, turns = await with_turns_of_others(work)
    assert [each.resource_name for each in response.resources] == NAMES
    assert turns >= READ + MANY // 250


def test_many_acls_are_compared_with_a_deletion_in_parts() -> None:
    cluster = secured()
    assert cluster.active.acls is not None
    fill(cluster.active.acls)
    filter_ = DeleteAclsFilter(**ANY_ACL | {"principal_filter": "User:bob", "resource_name_filter": "other"})
    [result] = admin.ask(cluster, DeleteAclsRequest(filters=[filter_])).filter_results
    assert result.matching_acls == []
    assert cluster.pauses >= READ
