"""Every request that a broker answers has its right: a new one is not let through because nobody thought of it."""

from typing import Final

from kcore.net.versions import api_name
from kcore.server.broker import coordination, kraft_front, zk_front
from kcore.server.broker.forwarding import forwarded_apis
from kcore.server.broker.gate import CHECKS

ELSEWHERE: Final = {  # Where the right is looked at, if not before the request is handled.
    "Metadata": "Rights.cut",
    "DescribeCluster": "Rights.cut",
    "Fetch": "fetch_right",
    "FindCoordinator": "BrokerGate.coordinator_error",
    "DescribeTopicPartitions": "describe_topic_partitions",
    "DescribeDelegationToken": "KraftFront._describe_tokens, SecurityAdmin",
    "CreateDelegationToken": "SecurityAdmin",
    "RenewDelegationToken": "its owner and renewers alone",
    "ExpireDelegationToken": "its owner and renewers alone",
}
NONE_NEEDED: Final = {"ApiVersions", "SaslHandshake", "SaslAuthenticate", "ListGroups", "ListTransactions"}
OF_CONTROLLERS: Final = {"LeaderAndIsr", "UpdateMetadata", "StopReplica"}  # ControlDoor.


def test_every_request_is_looked_at() -> None:
    checked = {api_name(kind) for kind in CHECKS} | {*ELSEWHERE} | NONE_NEEDED | {*coordination.APIS}
    assert {*kraft_front.APIS} - {*forwarded_apis()} <= checked
    assert {*zk_front.APIS} - OF_CONTROLLERS <= checked
