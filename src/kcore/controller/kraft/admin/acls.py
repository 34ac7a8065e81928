"""CreateAcls, DeleteAcls and DescribeAcls (KIP-140, KIP-290, KIP-801).

Source: AclControlManager, AclApis, ClusterMetadataAuthorizer, AclBindingFilter.
"""

from collections.abc import Generator, Mapping, Sequence
from typing import Final, NamedTuple

from kcore.controller.kraft.decision import AT_ONCE, Decision, Steps, Versioned, pause_if_many
from kcore.controller.kraft.departures import ACLS_FAIL_TOGETHER
from kcore.controller.kraft.kraft_context import MOST_RECORDS, TOO_LARGE, ControllerContext, RequestInfo
from kcore.metadata.acl_codes import ALLOW, ALTER, DENY, DESCRIBE, LITERAL, PREFIXED
from kcore.metadata.image.image import ClusterImage
from kcore.node.acl_hosts import block_of, is_block
from kcore.node.acls import (
    FOR_FILTERS,
    OPERATIONS,
    OPERATIONS_OF_3_9,
    RESOURCE_TYPES,
    AclKey,
    Filter,
    described,
    is_of_a_filter,
    key_of,
    matched,
    reason_no_resource,
)
from kcore.node.authorization import refusal
from kcore.node.error_responses import refused
from kcore.node.kraft.image_indexes import AclIndex
from kcore.node.parsed import is_parsed
from kcore.protocol_errors import Errors
from kcore.schema.acls import (
    AclCreation,
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
    DeleteAclsFilterResult,
    DeleteAclsRequest,
    DeleteAclsResponse,
    DescribeAclsRequest,
    DescribeAclsResponse,
)
from kcore.schema.metadata_records_security import AccessControlEntryRecord, RemoveAccessControlEntryRecord
from kcore.schema.structure import Message
from kcore.steps import Work
from kcore.types import Uuid

ENTRIES_AT_ONCE: Final = 250  # Entries or filters of one part of a decision: an entry takes up to 15 us.
COMPARED_AT_ONCE: Final = 16 * AT_ONCE  # Comparisons of filters and entries in one part: each takes 0.2 us or more.
_OF_A_FILTER, _OF_A_MATCH = 64, 4  # The work of a filter and of a matching entry, in comparisons.
_NO_AUTHORIZER: Final = "No Authorizer is configured."
_TOO_MANY: Final = f"Cannot remove more than {MOST_RECORDS} acls in a single delete operation."


def _refused_at_once(
    context: ControllerContext, request: Message, info: RequestInfo, operation: int, no_authorizer: str
) -> Message | None:
    """The response if the principal is not authorized or the cluster has no authorizer; None otherwise."""
    if not context.is_authorized(info, operation):
        return refused(request, Errors.CLUSTER_AUTHORIZATION_FAILED, refusal(info, operation))
    if not context.config.node.has_authorizer:
        return refused(request, Errors.SECURITY_DISABLED, no_authorizer)
    return None


# CreateAcls.


def on_create_acls(context: ControllerContext, request: CreateAclsRequest, info: RequestInfo) -> Steps:
    """Create each valid entry; an entry that exists already makes no record. Needs ALTER of the cluster.

    The code 0 (UNKNOWN) closes the connection. An entry with ANY or MATCH, which only filters may have, gets
    INVALID_REQUEST; in Kafka's way ("acls-fail-together") such an entry fails the whole request.
    """
    rows = request.creations
    yield from pause_if_many(len(rows))
    if not is_parsed(request):
        return Decision()
    if (response := _refused_at_once(context, request, info, ALTER, _NO_AUTHORIZER)) is not None:
        return Decision(response)
    yield from pause_if_many(len(rows))
    flaws: dict[int, AclCreationResult] = {}
    for place, each in enumerate(rows):
        if place % ENTRIES_AT_ONCE == ENTRIES_AT_ONCE - 1:
            yield
        reason = FOR_FILTERS if (of_filter := is_of_a_filter(each)) else reason_no_resource(each)
        if of_filter and ACLS_FAIL_TOGETHER in context.config.kafka_way:
            return Decision(refused(request, Errors.UNKNOWN_SERVER_ERROR))
        if reason is not None:
            flaws[place] = _result(_invalid(reason))
    context.call_controller(flaws)
    results, records = yield from _created(context, rows, flaws)
    if context.has_record_limits and len(records) > MOST_RECORDS:
        return Decision(refused(request, Errors.POLICY_VIOLATION, TOO_LARGE))
    return Decision(CreateAclsResponse(results=results), tuple(records.values()))


def _created(
    context: ControllerContext, rows: Sequence[AclCreation], flaws: Mapping[int, AclCreationResult]
) -> Generator[None, None, tuple[list[AclCreationResult], dict[AclKey, Versioned]]]:
    """The result of each entry, and the records of the new entries. `flaws`: the results of refused entries."""
    index, image, operations = AclIndex.of(context.image), context.image, _operations(context)
    results: list[AclCreationResult] = []
    records: dict[AclKey, Versioned] = {}
    for place, each in enumerate(rows):
        if place % ENTRIES_AT_ONCE == ENTRIES_AT_ONCE - 1:
            yield
        if place in flaws:
            results.append(flaws[place])
            continue
        flaw = _flaw_of_entry(context, each, operations)
        results.append(_result(flaw))
        record = _entry(each)
        if flaw is None and (key := key_of(record)) not in index and key not in records:
            record.id = _new_id(context, image)
            records[key] = Versioned(record)
    return results, records


class _Flaw(NamedTuple):
    """Why an entry is refused."""

    error: Errors
    message: str


def _invalid(reason: str) -> _Flaw:
    return _Flaw(Errors.INVALID_REQUEST, reason)


def _result(flaw: _Flaw | None) -> AclCreationResult:
    error, message = (Errors.NONE, "") if flaw is None else flaw
    return AclCreationResult(error_code=error, error_message=message)


def _new_id(context: ControllerContext, image: ClusterImage) -> Uuid:
    while (found := context.new_uuid()) in image.acls:
        pass
    return found


def _entry(row: AclCreation) -> AccessControlEntryRecord:
    """The record of an entry, without its id."""
    return AccessControlEntryRecord(
        resource_type=row.resource_type,
        resource_name=row.resource_name,
        pattern_type=row.resource_pattern_type,
        principal=row.principal,
        host=row.host,
        operation=row.operation,
        permission_type=row.permission_type,
    )


def _operations(context: ControllerContext) -> range:
    return OPERATIONS if context.config.node.rules.has_two_phase_commit_operation else OPERATIONS_OF_3_9


def _flaw_of_entry(context: ControllerContext, row: AclCreation, operations: range) -> _Flaw | None:
    """The error if an entry is invalid, otherwise None (AclControlManager.validateNewAcl)."""
    if (reason := _reason_no_entry(row, operations)) is not None:
        return _invalid(reason)
    return _flaw_of_host(context, row.host) if context.config.node.rules.checks_acl_hosts else None


def _flaw_of_host(context: ControllerContext, host: str) -> _Flaw | None:
    """The error if no ACL may have the host, otherwise None (AclControlManager.validateHostPattern)."""
    if not host:
        return _invalid("Host pattern cannot be null or empty")
    if not is_block(host):
        return None
    if not context.version.cidr_acls_supported:
        message = "CIDR-based ACL host patterns require metadata version 4.4-IV1 or higher."
        return _Flaw(Errors.UNSUPPORTED_VERSION, message)
    try:
        block_of(host)
    except ValueError as error:
        return _invalid(f"Invalid CIDR notation '{host}': {error}")
    return None


def _reason_no_entry(row: AclCreation, operations: range) -> str | None:
    if row.resource_type not in RESOURCE_TYPES:
        return "Invalid resourceType UNKNOWN"
    if row.resource_pattern_type not in (LITERAL, PREFIXED):
        return "Invalid patternType UNKNOWN"
    if row.operation not in operations:
        return "Invalid operation UNKNOWN"
    if row.permission_type not in (DENY, ALLOW):
        return "Invalid permissionType UNKNOWN"
    if ":" not in row.principal:
        return (
            f"Could not parse principal from `{row.principal}` "
            "(no colon is present separating the principal type from the principal name)"
        )
    return None


# DeleteAcls and DescribeAcls.


def on_delete_acls(context: ControllerContext, request: DeleteAclsRequest, info: RequestInfo) -> Steps:
    """Delete all entries that match a filter. Needs ALTER of the cluster.

    The code 0 (UNKNOWN) in a filter closes the connection.
    """
    yield from pause_if_many(len(request.filters))
    if not is_parsed(request):
        return Decision()
    if (response := _refused_at_once(context, request, info, ALTER, _NO_AUTHORIZER)) is not None:
        return Decision(response)
    context.call_controller()
    yield from pause_if_many(len(request.filters))
    operations, matching = _operations(context), _Matching(context.image)
    results: list[DeleteAclsFilterResult] = []
    ids: dict[Uuid, None] = {}
    for each in map(Filter, request.filters):
        if (reason := each.reason_unknown(operations)) is not None:
            results.append(DeleteAclsFilterResult(error_code=Errors.INVALID_REQUEST, error_message=reason))
            yield from matching.work.add(_OF_A_FILTER)
            continue
        found = yield from matching.entries(each)
        ids.update(dict.fromkeys(acl.id for acl in found))
        results.append(DeleteAclsFilterResult(error_message=None, matching_acls=[matched(acl) for acl in found]))
    if context.has_record_limits and len(ids) > MOST_RECORDS:
        return Decision(refused(request, Errors.INVALID_REQUEST, _TOO_MANY))
    records = []
    for place, each_id in enumerate(ids, 1):
        if place % AT_ONCE == 0:
            yield
        records.append(Versioned(RemoveAccessControlEntryRecord(id=each_id)))
    return Decision(DeleteAclsResponse(filter_results=results), records)


class _Matching:
    """Finds the entries that match filters, in parts: a filter without a resource pattern is compared with all entries.

    The state does not change between the parts.
    """

    def __init__(self, image: ClusterImage) -> None:
        self._index, self._acls = AclIndex.of(image), image.acls
        self.work = Work(COMPARED_AT_ONCE)

    def entries(self, wanted: Filter) -> Generator[None, None, list[AccessControlEntryRecord]]:
        """The entries that match the filter, in the image's order."""
        yield from self.work.add(_OF_A_FILTER)
        candidates, found = [*wanted.candidates(self._index, self._acls.values())], list[AccessControlEntryRecord]()
        at_once = COMPARED_AT_ONCE // 8
        for begin in range(0, len(candidates), at_once):
            part = candidates[begin : begin + at_once]
            some = [each for each in part if wanted.matches(each)]
            found += some
            yield from self.work.add(len(part) + _OF_A_MATCH * len(some))
        return found


def on_describe_acls(context: ControllerContext, request: DescribeAclsRequest, info: RequestInfo) -> Steps:
    """The matching entries by resource. Needs DESCRIBE of the cluster.

    The code 0 (UNKNOWN) in the filter closes the connection.
    """
    if info.is_forwarded or not is_parsed(request):  # Brokers never forward DescribeAcls: the envelope gets the error.
        return Decision()
    no_authorizer = "No Authorizer is configured on the broker"
    if (response := _refused_at_once(context, request, info, DESCRIBE, no_authorizer)) is not None:
        return Decision(response)
    found = yield from _Matching(context.image).entries(Filter(request))
    return Decision(DescribeAclsResponse(resources=(yield from described(found))))
