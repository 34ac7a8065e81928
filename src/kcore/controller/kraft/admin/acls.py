"""CreateAcls, DeleteAcls and DescribeAcls (KIP-140, KIP-290, KIP-801).

Source: AclControlManager, AclApis, ClusterMetadataAuthorizer, AclBindingFilter.
"""

from typing import Final, NamedTuple

from kcore.controller.kraft.decision import Decision, Versioned
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
from kcore.types import Uuid

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


def on_create_acls(context: ControllerContext, request: CreateAclsRequest, info: RequestInfo) -> Decision:
    """Create each valid entry; an entry that exists already makes no record. Needs ALTER of the cluster.

    The code 0 (UNKNOWN) closes the connection. An entry with ANY or MATCH, which only filters may have, gets
    INVALID_REQUEST; in Kafka's way ("acls-fail-together") such an entry fails the whole request.
    """
    rows = request.creations
    if not is_parsed(request):
        return Decision()
    if (response := _refused_at_once(context, request, info, ALTER, _NO_AUTHORIZER)) is not None:
        return Decision(response)
    if ACLS_FAIL_TOGETHER in context.config.kafka_way and any(is_of_a_filter(each) for each in rows):
        return Decision(refused(request, Errors.UNKNOWN_SERVER_ERROR))
    reasons = [FOR_FILTERS if is_of_a_filter(each) else reason_no_resource(each) for each in rows]
    flaws = [None if each is None else _invalid(each) for each in reasons]
    context.call_controller({place: _result(flaw) for place, flaw in enumerate(flaws) if flaw is not None})
    index, image, operations = context.authorizer.index.of(context.image), context.image, _operations(context)
    results: list[AclCreationResult] = []
    records: dict[AclKey, Versioned] = {}
    for each, of_resource in zip(rows, flaws, strict=True):
        flaw = of_resource or _flaw_of_entry(context, each, operations)
        results.append(_result(flaw))
        record = _entry(each)
        if flaw is None and (key := key_of(record)) not in index and key not in records:
            record.id = _new_id(context, image)
            records[key] = Versioned(record)
    if context.has_record_limits and len(records) > MOST_RECORDS:
        return Decision(refused(request, Errors.POLICY_VIOLATION, TOO_LARGE))
    return Decision(CreateAclsResponse(results=results), tuple(records.values()))


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


def on_delete_acls(context: ControllerContext, request: DeleteAclsRequest, info: RequestInfo) -> Decision:
    """Delete all entries that match a filter. Needs ALTER of the cluster.

    The code 0 (UNKNOWN) in a filter closes the connection.
    """
    if not is_parsed(request):
        return Decision()
    if (response := _refused_at_once(context, request, info, ALTER, _NO_AUTHORIZER)) is not None:
        return Decision(response)
    context.call_controller()
    index, operations = context.authorizer.index.of(context.image), _operations(context)
    results: list[DeleteAclsFilterResult] = []
    ids: dict[Uuid, None] = {}
    for each in map(Filter, request.filters):
        if (reason := each.reason_unknown(operations)) is not None:
            results.append(DeleteAclsFilterResult(error_code=Errors.INVALID_REQUEST, error_message=reason))
            continue
        found = each.matching(index, context.image.acls.values())
        ids.update(dict.fromkeys(acl.id for acl in found))
        matching = [matched(acl) for acl in found]
        results.append(DeleteAclsFilterResult(error_message=None, matching_acls=matching))
    if context.has_record_limits and len(ids) > MOST_RECORDS:
        return Decision(refused(request, Errors.INVALID_REQUEST, _TOO_MANY))
    records = [Versioned(RemoveAccessControlEntryRecord(id=each)) for each in ids]
    return Decision(DeleteAclsResponse(filter_results=results), records)


def on_describe_acls(context: ControllerContext, request: DescribeAclsRequest, info: RequestInfo) -> Decision:
    """The matching entries by resource. Needs DESCRIBE of the cluster.

    The code 0 (UNKNOWN) in the filter closes the connection.
    """
    if info.is_forwarded or not is_parsed(request):  # Brokers never forward DescribeAcls: the envelope gets the error.
        return Decision()
    no_authorizer = "No Authorizer is configured on the broker"
    if (response := _refused_at_once(context, request, info, DESCRIBE, no_authorizer)) is not None:
        return Decision(response)
    found = Filter(request).matching(context.authorizer.index.of(context.image), context.image.acls.values())
    return Decision(DescribeAclsResponse(resources=described(found)))
