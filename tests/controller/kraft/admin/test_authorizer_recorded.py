"""ACLs against what Kafka's own StandardAuthorizer decided: single requests, any resource of a type, and filters.

Kafka looks for the pattern "*" among the patterns that sort in front of a name. For a name that begins with "*", or
sorts before it, Kafka may miss the pattern, throw, or never return. There kcore decides by the documented rule, which
`by_the_rule` repeats as a scan over all entries. For other names Kafka agrees with the rule.
"""

from collections import Counter
from dataclasses import dataclass
from functools import cache
from typing import Any

import pytest

import cases
from controller.kraft.contexts import a_context
from kcore.controller.kraft.kraft_context import ControllerContext, RequestInfo
from kcore.metadata.principal import KafkaPrincipal
from kcore.node.acls import Filter
from kcore.node.authorization import java_host_address
from kcore.node.kraft.image_indexes import AclIndex
from kcore.schema.acls import DescribeAclsRequest
from kcore.schema.metadata_records_security import AccessControlEntryRecord, RemoveAccessControlEntryRecord
from kcore.types import Uuid

RESOURCE_TYPES = ["UNKNOWN", "ANY", "TOPIC", "GROUP", "CLUSTER", "TRANSACTIONAL_ID", "DELEGATION_TOKEN", "USER"]
PATTERN_TYPES = ["UNKNOWN", "ANY", "MATCH", "LITERAL", "PREFIXED"]
PERMISSIONS = ["UNKNOWN", "ANY", "DENY", "ALLOW"]
OPERATIONS = [
    *("UNKNOWN", "ANY", "ALL", "READ", "WRITE", "CREATE", "DELETE", "ALTER", "DESCRIBE", "CLUSTER_ACTION"),
    *("DESCRIBE_CONFIGS", "ALTER_CONFIGS", "IDEMPOTENT_WRITE", "CREATE_TOKENS", "DESCRIBE_TOKENS", "TWO_PHASE_COMMIT"),
]
IMPLIED = {
    "DESCRIBE": {"DESCRIBE", "READ", "WRITE", "DELETE", "ALTER", "ALL"},
    "DESCRIBE_CONFIGS": {"DESCRIBE_CONFIGS", "ALTER_CONFIGS", "ALL"},
}


@dataclass
class Authorizer:
    """One recorded authorizer, and kcore's with the same entries."""

    case: dict[str, Any]
    context: ControllerContext
    entries: dict[int, dict[str, Any]]  # Those that are there, by their place in the recording.
    ids: dict[int, Uuid]

    def decides(self, request: dict[str, Any], action: dict[str, Any]) -> bool:
        kind, _, name = request["principal"].partition(":")
        info = RequestInfo(0, 0, principal=KafkaPrincipal(name, kind), client_address=request["host"])
        operation, resource = OPERATIONS.index(action["op"]), RESOURCE_TYPES.index(action["resourceType"])
        return self.context.is_authorized(info, operation, resource, action["name"])

    def by_the_rule(self, request: dict[str, Any], action: dict[str, Any], *, missing: str | None = None) -> bool:
        """Super users; DENY before ALLOW; without an entry of the resource what the setting says.

        `missing` is a literal pattern that is not seen.
        """
        if request["principal"] in super_users(self.case):
            return True
        of_resource = [
            each
            for each in self.entries.values()
            if covers_name(each, action) and (each["patternType"], each["name"]) != ("LITERAL", missing)
        ]
        hosts = {request.get("hostAddress", request["host"]), "*"}
        found = [
            each
            for each in of_resource
            if each["principal"] in (request["principal"], "User:*") and each["host"] in hosts
        ]
        denied = {action["op"], "ALL"}
        allowed = IMPLIED.get(action["op"], denied)
        if any(each["permission"] != "ALLOW" and each["operation"] in denied for each in found):
            return False
        if any(each["permission"] == "ALLOW" and each["operation"] in allowed for each in found):
            return True
        return not of_resource and bool(self.case["allowEveryone"])


def super_users(case: dict[str, Any]) -> tuple[str, ...]:
    return tuple(each.strip() for each in (case["superUsers"] or "").split(";") if each.strip())


def covers_name(entry: dict[str, Any], action: dict[str, Any]) -> bool:
    if entry["resourceType"] != action["resourceType"]:
        return False
    if entry["patternType"] != "LITERAL":
        return bool(action["name"].startswith(entry["name"]))
    return entry["name"] in (action["name"], "*")


@cache
def recorded(version: str) -> list[Authorizer]:
    """Left out: settings and loads that Kafka's authorizer refuses.

    Entries that a controller lets nobody create are in, such as those of a code that stands for none: a log may have
    them, and it decides by them.
    """
    found = []
    for case in cases.load(f"acl_authorizer_{version}"):
        if "configureError" in case or "loadError" in case:
            continue
        settings = {"super_users": super_users(case), "allow_everyone_if_no_acl_found": case["allowEveryone"]}
        one = Authorizer(case, a_context(has_authorizer=True, **settings), {}, {})
        for place, entry in enumerate(case["acls"]):
            if "error" not in entry:
                one.entries[place], one.ids[place] = entry, Uuid((place + 100).to_bytes(16, "big"))
                one.context.image.apply(record_of(entry, one.ids[place]))
        for removed in case.get("removed", ()):
            if "error" not in removed:
                del one.entries[removed["acl"]]
                one.context.image.apply(RemoveAccessControlEntryRecord(id=one.ids.pop(removed["acl"])))
        assert len(one.context.image.acls) == case["aclCount"]
        found.append(one)
    return found


def record_of(entry: dict[str, Any], acl_id: Uuid) -> AccessControlEntryRecord:
    return AccessControlEntryRecord(
        id=acl_id,
        resource_type=RESOURCE_TYPES.index(entry["resourceType"]),
        resource_name=entry["name"],
        pattern_type=PATTERN_TYPES.index(entry["patternType"]),
        principal=entry["principal"],
        host=entry["host"],
        operation=OPERATIONS.index(entry["operation"]),
        permission_type=PERMISSIONS.index(entry["permission"]),
    )


@pytest.mark.recorded
@pytest.mark.parametrize("version", [pytest.param("3.9.1", marks=pytest.mark.long), "4.3.1"])
def test_requests_are_decided_as_kafka_decides_them(version: str) -> None:
    count: Counter[str] = Counter()
    for one in recorded(version):
        for request in one.case["requests"]:
            assert java_host_address(request["host"]) == request.get("hostAddress", request["host"])
            if request.get("error") == "IllegalArgumentException":
                continue  # A pattern type, operation or resource type that no request can have.
            results = request.get("results") or [None] * len(request["actions"])
            for action, result in zip(request["actions"], results, strict=True):
                decided = one.decides(request, action)
                assert decided == one.by_the_rule(request, action), (one.case["i"], request, action)
                if result is None:
                    count[request["error"]] += 1
                elif decided == (result == "ALLOWED"):
                    count["as Kafka"] += 1
                else:
                    missed = one.by_the_rule(request, action, missing="*")
                    assert action["name"][:1] <= "*", (one.case["i"], request, action)
                    assert missed == (result == "ALLOWED"), (one.case["i"], request, action)
                    count["missed by Kafka"] += 1
    failing = {"AuthorizerNotReadyException", "IllegalStateException", "StringIndexOutOfBoundsException"}
    assert count.keys() <= {"as Kafka", "missed by Kafka", "NEVER_RETURNS", *failing}, count
    assert count["as Kafka"] > 50 * (count.total() - count["as Kafka"]), count


@pytest.mark.recorded
@pytest.mark.parametrize("version", ["3.9.1", "4.3.1"])
def test_rights_on_any_resource_of_a_type_are_as_kafkas(version: str) -> None:
    """Kafka does not see what an entry for the empty prefix denies; nobody can create such an entry."""
    count: Counter[str] = Counter()
    for one in recorded(version):
        for row in one.case["byResourceType"]:
            if "error" in row:
                count[row["error"]] += 1
                continue
            kind, _, name = row["principal"].partition(":")
            operation, resource = OPERATIONS.index(row["op"]), RESOURCE_TYPES.index(row["resourceType"])
            asked = (KafkaPrincipal(name, kind), row["host"], operation, resource)
            if one.context.authorizer.allows_on_any(*asked) == (row["result"] == "ALLOWED"):
                count["as Kafka"] += 1
            else:
                denied = [each for each in one.entries.values() if is_of_everything(each, row)]
                assert denied and row["result"] == "ALLOWED", (one.case["i"], row)
                count["missed by Kafka"] += 1
    failing = {"AuthorizerNotReadyException", "IllegalArgumentException", "IllegalStateException"}
    assert count.keys() <= {"as Kafka", "missed by Kafka", *failing}, count
    assert count["as Kafka"] > 13 * (count.total() - count["as Kafka"]) > 200 * count["missed by Kafka"], count


def is_of_everything(entry: dict[str, Any], row: dict[str, Any]) -> bool:
    of_all = entry["patternType"] != "LITERAL" and not entry["name"]
    return of_all and entry["permission"] != "ALLOW" and bool(entry["resourceType"] == row["resourceType"])


@pytest.mark.recorded
@pytest.mark.parametrize("version", ["3.9.1", "4.3.1"])
def test_filters_find_what_kafkas_find(version: str) -> None:
    count: Counter[str] = Counter()
    for one in recorded(version):
        index = AclIndex.of(one.context.image)
        for row in one.case["filters"]:
            count[row.get("error", "found")] += 1
            if "error" in row:
                continue
            request = DescribeAclsRequest(
                resource_type_filter=RESOURCE_TYPES.index(row["resourceType"]),
                resource_name_filter=row["name"],
                pattern_type_filter=PATTERN_TYPES.index(row["patternType"]),
                principal_filter=row["principal"],
                host_filter=row["host"],
                operation=OPERATIONS.index(row["operation"]),
                permission_type=PERMISSIONS.index(row["permission"]),
            )
            found = {each.id for each in Filter(request).matching(index, one.context.image.acls.values())}
            assert found == {one.ids[place] for place in row["matches"]}, (one.case["i"], row)
    assert count["found"] > 20 * count["IllegalArgumentException"], count
