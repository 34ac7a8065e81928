"""Hosts of ACLs that are blocks of addresses."""

from typing import Any

import pytest

import cases
from kcore.metadata.acl_codes import ALLOW, DENY, LITERAL, READ, TOPIC
from kcore.metadata.principal import KafkaPrincipal
from kcore.node.acl_hosts import block_of, is_block, is_in_block
from kcore.node.acls import AclsByResource
from kcore.node.authorization import Authorizer
from kcore.node.kraft.node_config import NodeConfig
from kcore.schema.metadata_records_security import AccessControlEntryRecord

ALICE = KafkaPrincipal("alice")


@pytest.mark.recorded
def test_blocks_are_those_of_kafkas_cidr_utils() -> None:
    """Recorded by `java -cp 'JARS/*' tests/oracle/facts/AclHostFacts.java | gzip -9n`, with the jars of 4.4.0."""
    recorded = cases.load("acl_hosts_4.4.0")
    assert len(recorded) > 70
    for case in recorded:
        host, error = case["host"], None
        try:
            block_of(host)
        except ValueError as problem:
            error = str(problem)
        assert error == case["error"], host
        within = [each for each in case["of"] if is_block(host) and is_in_block(each, host)]
        assert sorted(within) == case["in"], host


def authorizer(*hosts: tuple[str, int], matches_blocks: bool = True) -> Authorizer:
    """ACLs of alice for reading topic t, by host and permission."""
    index: AclsByResource[int, Any] = AclsByResource()
    for key, (host, permission) in enumerate(hosts):
        codes = {"resource_type": TOPIC, "pattern_type": LITERAL, "operation": READ, "permission_type": permission}
        index.add(key, AccessControlEntryRecord(resource_name="t", principal="User:alice", host=host, **codes))
    settings = NodeConfig(3000, "a cluster")
    return Authorizer(settings, lambda: index, is_standard=True, matches_blocks=matches_blocks)


@pytest.mark.parametrize("may", ["allows", "allows_on_any"])
def test_an_entry_applies_to_all_addresses_of_its_block(may: str) -> None:
    def can(rules: Authorizer, address: str) -> bool:
        if may == "allows":
            return rules.allows(ALICE, address, READ, TOPIC, "t")
        return rules.allows_on_any(ALICE, address, READ, TOPIC)

    rules = authorizer(("10.0.0.0/8", ALLOW), ("2001:db8::/32", ALLOW), ("10.1.0.0/16", DENY))
    addresses = ("10.2.0.1", "10.1.0.1", "11.0.0.1", "2001:db8::7", "2001:db9::7", "::ffff:10.2.0.1", "::ffff:10.1.0.1")
    assert [can(rules, each) for each in addresses] == [True, False, False, True, False, True, False]
    assert not can(authorizer(("10.0.0.0/8", ALLOW), matches_blocks=False), "10.2.0.1")


def test_an_invalid_block_of_a_log_applies_to_no_address() -> None:
    assert not authorizer(("10.0.0.0/99", ALLOW)).allows(ALICE, "10.0.0.0", READ, TOPIC, "t")
