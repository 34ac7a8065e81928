"""ACLs created, deleted and described, beyond what stories of a real controller show."""

from typing import Any

import pytest

from controller.kraft.contexts import a_context, applied, decision_of, in_parts
from kcore.controller.kraft.admin import acls
from kcore.controller.kraft.decision import Versioned
from kcore.controller.kraft.departures import ACLS_FAIL_TOGETHER
from kcore.controller.kraft.kraft_context import ControllerContext, RequestInfo
from kcore.metadata.principal import KafkaPrincipal
from kcore.protocol_errors import Errors
from kcore.schema.acls import (
    AclCreation,
    CreateAclsRequest,
    DeleteAclsFilter,
    DeleteAclsRequest,
    DescribeAclsRequest,
)
from kcore.schema.structure import Message

TOGETHER = frozenset({ACLS_FAIL_TOGETHER})
ROOT = RequestInfo(3, 0, 0, KafkaPrincipal("root"))
TOPIC, LITERAL, PREFIXED, MATCH, ANY, READ, ALLOW = 2, 3, 4, 2, 1, 3, 3


def a_world(level: int = 29, **settings: object) -> ControllerContext:
    return a_context(level, has_authorizer=True, super_users=("User:root",), **settings)


def creation(name: str = "t", **values: object) -> AclCreation:
    given = {
        "resource_type": TOPIC,
        "resource_name": name,
        "resource_pattern_type": LITERAL,
        "principal": "User:alice",
        "host": "*",
        "operation": READ,
        "permission_type": ALLOW,
    }
    return AclCreation(**{**given, **values})


def wanted(name: str | None, pattern: int = LITERAL, resource_type: int = TOPIC) -> DeleteAclsFilter:
    return DeleteAclsFilter(
        resource_type_filter=resource_type,
        resource_name_filter=name,
        pattern_type_filter=pattern,
        principal_filter=None,
        host_filter=None,
        operation=ANY,
        permission_type=ANY,
    )


def a_question(**values: int) -> DescribeAclsRequest:
    """For all entries."""
    codes = {"resource_type_filter": ANY, "pattern_type_filter": ANY, "operation": ANY, "permission_type": ANY}
    names = dict.fromkeys(("resource_name_filter", "principal_filter", "host_filter"))
    return DescribeAclsRequest(**{**codes, **names, **values})


def errors_of(response: Any) -> set[tuple[int, str]]:
    """The errors of the response, or of its items."""
    items = getattr(response, "results", None) or getattr(response, "filter_results", None) or [response]
    return {(each.error_code, each.error_message) for each in items}


def test_fifty_thousand_entries_are_made_and_removed_by_one_request_each() -> None:
    context = a_world()
    request = CreateAclsRequest(creations=[creation(f"t{k}") for k in range(50_000)])
    made = decision_of(context, request, ROOT)
    assert len(made.records) == 50_000
    applied(context, made)
    gone = decision_of(context, DeleteAclsRequest(filters=[wanted(None)]), ROOT)
    assert len(gone.records) == 50_000
    applied(context, gone)
    assert not context.image.acls


def test_kafkas_way_has_a_limit() -> None:
    context = a_world(kafka_way=frozenset({"record-limits"}))
    request = CreateAclsRequest(creations=[creation(f"t{k}") for k in range(10_001)])
    decision = decision_of(context, request, ROOT)
    assert not decision.records
    assert {each.error_code for each in decision.response.results} == {Errors.POLICY_VIOLATION}
    request.creations.pop()
    applied(context, decision_of(context, request, ROOT))
    applied(context, decision_of(context, CreateAclsRequest(creations=[creation("one more")]), ROOT))
    gone = decision_of(context, DeleteAclsRequest(filters=[wanted(None)]), ROOT)
    assert not gone.records
    assert gone.response.filter_results[0].error_code == Errors.INVALID_REQUEST
    assert len(decision_of(context, DeleteAclsRequest(filters=[wanted("t7")]), ROOT).records) == 1


def test_an_entry_is_written_with_all_that_was_asked_for() -> None:
    values = {
        "resource_type": 3,
        "resource_pattern_type": PREFIXED,
        "principal": "User:bob",
        "host": "10.0.0.1",
        "operation": 8,
        "permission_type": 2,
    }
    [made] = decision_of(a_world(), CreateAclsRequest(creations=[creation("g", **values)]), ROOT).records
    assert isinstance(made, Versioned)
    record = made.record
    resource = record.resource_type, record.resource_name, record.pattern_type
    entry = record.principal, record.host, record.operation, record.permission_type
    assert (resource, entry) == ((3, "g", PREFIXED), ("User:bob", "10.0.0.1", 8, 2))


@pytest.mark.parametrize(
    ("request_", "right"),
    [
        (CreateAclsRequest(creations=[creation()]), "ALTER"),
        (DeleteAclsRequest(filters=[wanted(None)]), "ALTER"),
        (a_question(), "DESCRIBE"),
    ],
)
def test_who_may_not_and_where_there_is_no_authorizer(request_: Message, right: str) -> None:
    alice = ROOT._replace(principal=KafkaPrincipal("alice"))
    refused = decision_of(a_world(), request_, alice)
    assert errors_of(refused.response) == {
        (Errors.CLUSTER_AUTHORIZATION_FAILED, f"Principal User:alice needs {right} permission.")
    }
    disabled = decision_of(a_context(), request_, alice)
    [(error, message)] = errors_of(disabled.response)
    assert error == Errors.SECURITY_DISABLED and message.startswith("No Authorizer is configured")
    assert not refused.records and not disabled.records


def test_a_filter_that_makes_no_sense_costs_no_other() -> None:
    context = a_world()
    applied(context, decision_of(context, CreateAclsRequest(creations=[creation()]), ROOT))
    strange = [wanted("t", pattern=9), wanted("t", resource_type=9), wanted("t"), wanted("t")]
    strange[2].operation = strange[3].permission_type = 99
    decision = decision_of(context, DeleteAclsRequest(filters=[*strange, wanted("t")]), ROOT)
    assert [(each.error_code, each.error_message) for each in decision.response.filter_results] == [
        *[(Errors.INVALID_REQUEST, "Unknown patternFilter.")] * 2,
        *[(Errors.INVALID_REQUEST, "Unknown entryFilter.")] * 2,
        (Errors.NONE, None),
    ]
    assert len(decision.records) == 1


@pytest.mark.parametrize("values", [{"operation": ANY}, {"resource_pattern_type": MATCH}, {"resource_type": ANY}])
def test_what_belongs_into_a_filter_is_no_entry(values: dict[str, int]) -> None:
    """In Kafka's way it fails the others, too."""
    for kafka_way, errors in ((frozenset(), (Errors.INVALID_REQUEST, Errors.NONE)), (TOGETHER, (-1, -1))):
        context = a_world(kafka_way=kafka_way)
        decision = decision_of(context, CreateAclsRequest(creations=[creation(**values), creation()]), ROOT)
        assert tuple(each.error_code for each in decision.response.results) == errors
        assert len(decision.records) == errors.count(Errors.NONE)
        assert len(decision_of(context, CreateAclsRequest(creations=[creation()]), ROOT).records) == 1


def test_a_question_for_acls_comes_in_no_envelope() -> None:
    context = a_world()
    assert decision_of(context, a_question(), ROOT).response.error_code == Errors.NONE
    assert decision_of(context, a_question(), ROOT._replace(is_forwarded=True)).response is None
    assert decision_of(context, a_question(operation=0), ROOT).response is None


def test_nothing_changes_before_the_records_are_applied() -> None:
    context = a_world()
    decision_of(context, CreateAclsRequest(creations=[creation()]), ROOT)
    assert not context.image.acls
    again = decision_of(context, CreateAclsRequest(creations=[creation(), creation()]), ROOT)
    assert len(again.records) == 1  # Twice in one request: one entry.
    applied(context, again)
    assert not decision_of(context, CreateAclsRequest(creations=[creation()]), ROOT).records


def test_an_entry_that_was_deleted_is_made_again() -> None:
    context = a_world()
    for _ in range(3):
        applied(context, decision_of(context, CreateAclsRequest(creations=[creation()]), ROOT))
        assert len(context.image.acls) == 1
        assert not decision_of(context, CreateAclsRequest(creations=[creation()]), ROOT).records
        applied(context, decision_of(context, DeleteAclsRequest(filters=[wanted("t")]), ROOT))
        assert not context.image.acls


def test_an_id_that_is_taken_is_not_given_again() -> None:
    context = a_world()
    applied(context, decision_of(context, CreateAclsRequest(creations=[creation()]), ROOT))
    (taken,) = context.image.acls
    fresh = iter([taken, type(taken)(b"f" * 16)])
    context.new_uuid = lambda: next(fresh)
    decision = decision_of(context, CreateAclsRequest(creations=[creation("u")]), ROOT)
    (record,) = decision.records
    assert isinstance(record, Versioned)
    assert record.record.id != taken


def test_codes_without_a_name_are_refused_one_by_one() -> None:
    rows = [
        creation(resource_type=99),
        creation(resource_pattern_type=99),
        creation(operation=99),
        creation(permission_type=99),
        creation(principal="alice"),
        creation(),
    ]
    decision = decision_of(a_world(), CreateAclsRequest(creations=rows), ROOT)
    assert [each.error_message for each in decision.response.results] == [
        "Invalid resourceType UNKNOWN",
        "Invalid patternType UNKNOWN",
        "Invalid operation UNKNOWN",
        "Invalid permissionType UNKNOWN",
        "Could not parse principal from `alice` (no colon is present separating the principal type from the principal "
        "name)",
        "",
    ]
    assert len(decision.records) == 1


def test_two_phase_commit_is_no_operation_of_3_9() -> None:
    for release, expected in (("3.9.1", Errors.INVALID_REQUEST), ("4.1.2", Errors.NONE)):
        context = a_world(release=release, level=17)
        request = CreateAclsRequest(creations=[creation(operation=15)])
        assert decision_of(context, request, ROOT).response.results[0].error_code == expected


def test_a_zero_closes_the_connection() -> None:
    context = a_world()
    assert decision_of(context, CreateAclsRequest(creations=[creation(operation=0)]), ROOT).response is None
    filters = [wanted("t", resource_type=0)]
    assert decision_of(context, DeleteAclsRequest(filters=filters), ROOT).response is None


def test_a_match_filter_finds_wildcards_and_prefixes() -> None:
    context = a_world()
    rows = [creation("*"), creation("lo", resource_pattern_type=PREFIXED), creation("logs"), creation("log")]
    applied(context, decision_of(context, CreateAclsRequest(creations=rows), ROOT))
    request = DescribeAclsRequest(
        resource_type_filter=TOPIC,
        resource_name_filter="logs",
        pattern_type_filter=MATCH,
        principal_filter=None,
        host_filter=None,
        operation=ANY,
        permission_type=ANY,
    )
    found = decision_of(context, request, ROOT).response.resources
    assert {(each.resource_name, each.pattern_type) for each in found} == {
        ("*", LITERAL),
        ("lo", PREFIXED),
        ("logs", LITERAL),
    }


def test_an_entry_that_two_filters_match_is_removed_once() -> None:
    context = a_world()
    applied(context, decision_of(context, CreateAclsRequest(creations=[creation()]), ROOT))
    decision = decision_of(context, DeleteAclsRequest(filters=[wanted("t"), wanted(None)]), ROOT)
    assert len(decision.records) == 1
    assert [len(each.matching_acls) for each in decision.response.filter_results] == [1, 1]


def errors_by_host(context: ControllerContext, *hosts: str) -> list[int]:
    decided = decision_of(context, CreateAclsRequest(creations=[creation(host=each) for each in hosts]), ROOT)
    assert len(decided.records) == sum(not each.error_code for each in decided.response.results)
    return [each.error_code for each in decided.response.results]


HOSTS = ("", "10.0.0.0/8", "10.0.0.0/33", "10.0.0.1", "anything", "*")


def test_hosts_are_checked_from_4_4_on_and_blocks_need_its_level() -> None:
    invalid, unsupported = Errors.INVALID_REQUEST, Errors.UNSUPPORTED_VERSION
    assert errors_by_host(a_world(release="4.3.1"), *HOSTS) == [0] * 6
    assert errors_by_host(a_world(31, release="4.4.0"), *HOSTS) == [invalid, unsupported, unsupported, 0, 0, 0]
    assert errors_by_host(a_world(32, release="4.4.0"), *HOSTS) == [invalid, 0, invalid, 0, 0, 0]


def test_a_client_in_a_block_is_authorized_from_4_4_on() -> None:
    for release, allowed in (("4.3.1", False), ("4.4.0", True)):
        context = a_world(32 if allowed else 29, release=release)
        applied(context, decision_of(context, CreateAclsRequest(creations=[creation(host="10.0.0.0/8")]), ROOT))
        assert context.authorizer.allows(KafkaPrincipal("alice"), "10.9.8.7", READ, TOPIC, "t") is allowed


MANY = 3_000


def test_many_entries_are_made_found_and_deleted_in_parts() -> None:
    """As few entries are; between two parts the loop answers other requests."""
    context = a_world()
    rows = [creation(f"t{number}") for number in range(MANY)]
    made, parts = in_parts(acls.on_create_acls(context, CreateAclsRequest(creations=rows), ROOT))
    assert len(made.records) == len(made.response.results) == MANY and parts >= 2 * MANY // acls.ENTRIES_AT_ONCE
    applied(context, made)
    found, parts = in_parts(acls.on_describe_acls(context, a_question(), ROOT))
    assert [each.resource_name for each in found.response.resources] == [each.resource_name for each in rows]
    assert parts >= MANY // 1_000
    named = DeleteAclsRequest(filters=[wanted(each.resource_name) for each in rows])
    gone, parts = in_parts(acls.on_delete_acls(context, named, ROOT))
    assert len(gone.records) == MANY and parts >= MANY // acls.ENTRIES_AT_ONCE
    assert {len(each.matching_acls) for each in gone.response.filter_results} == {1}


def test_few_filters_are_compared_with_many_entries_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    context = a_world()
    rows = [creation(f"t{number}") for number in range(200)]
    applied(context, decision_of(context, CreateAclsRequest(creations=rows), ROOT))
    monkeypatch.setattr(acls, "COMPARED_AT_ONCE", 400)
    strangers = [wanted(None) for _ in range(8)]
    for each in strangers:
        each.principal_filter = "User:nobody"
    decision, parts = in_parts(acls.on_delete_acls(context, DeleteAclsRequest(filters=strangers), ROOT))
    assert not decision.records and parts >= 8 * 200 // 400
