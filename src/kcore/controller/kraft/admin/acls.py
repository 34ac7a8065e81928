"""CreateAcls, DeleteAcls and DescribeAcls (KIP-140, KIP-290, KIP-801).

Source: AclControlManager, AclApis, ClusterMetadataAuthorizer, AclBindingFilter.
"""

from collections.abc import Iterable
from typing import Final

from kcore.controller.kraft.acl_index import LITERAL, PREFIXED, WILDCARD, Acl, AclIndex, AclKey, key_of
from kcore.controller.kraft.admin.envelope import is_parsed
from kcore.controller.kraft.authorization import ALTER, CLUSTER, CLUSTER_NAME, DESCRIBE, is_authorized, refusal
from kcore.controller.kraft.context import ControllerContext, RequestInfo
from kcore.controller.kraft.decision import Decision, Versioned
from kcore.controller.kraft.departures import ACLS_FAIL_TOGETHER
from kcore.controller.kraft.error_responses import refused
from kcore.controller.kraft.record_limits import MOST_RECORDS, TOO_LARGE, has_limits
from kcore.metadata.image import ClusterImage
from kcore.protocol_errors import Errors
from kcore.schema.acls import (
    AclCreation,
    AclCreationResult,
    AclDescription,
    CreateAclsRequest,
    CreateAclsResponse,
    DeleteAclsFilter,
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)
from kcore.schema.metadata_records_security import AccessControlEntryRecord, RemoveAccessControlEntryRecord
from kcore.schema.structure import Message
from kcore.types import Uuid

ANY, MATCH = 1, 2  # MATCH is a pattern type alone.
DENY, ALLOW = 2, 3
RESOURCE_TYPES, PATTERN_TYPES, OPERATIONS, PERMISSIONS = range(8), range(5), range(16), range(4)  # Codes with a name.
OPERATIONS_OF_3_9: Final = range(15)  # Without TWO_PHASE_COMMIT.
_NO_AUTHORIZER: Final = "No Authorizer is configured."
_FOR_FILTERS: Final = "ANY and MATCH are for filters: no entry can have them."
_TOO_MANY: Final = f"Cannot remove more than {MOST_RECORDS} acls in a single delete operation."


def _refused_at_once(
    context: ControllerContext, request: Message, info: RequestInfo, operation: int, no_authorizer: str
) -> Message | None:
    """The response where the principal is not authorized, or the cluster has no ACLs; None otherwise."""
    if not is_authorized(context, info, operation):
        return refused(request, Errors.CLUSTER_AUTHORIZATION_FAILED, refusal(info, operation))
    if not context.config.has_authorizer:
        return refused(request, Errors.SECURITY_DISABLED, no_authorizer)
    return None


# Created.


def on_create_acls(context: ControllerContext, request: CreateAclsRequest, info: RequestInfo) -> Decision:
    """Each entry by itself; one that exists is fine and makes no record. Needs ALTER of the cluster.

    An unknown code (0) closes the connection. ANY and MATCH, which belong into filters, are INVALID_REQUEST; in Kafka's
    way ("acls-fail-together") they fail the whole request.
    """
    rows = request.creations
    if not is_parsed(request):
        return Decision()
    if (response := _refused_at_once(context, request, info, ALTER, _NO_AUTHORIZER)) is not None:
        return Decision(response)
    if ACLS_FAIL_TOGETHER in context.config.kafka_way and any(_is_of_a_filter(each) for each in rows):
        return Decision(refused(request, Errors.UNKNOWN_SERVER_ERROR))
    reasons = [_FOR_FILTERS if _is_of_a_filter(each) else _reason_no_resource(each) for each in rows]
    context.call_controller({place: _result(reason) for place, reason in enumerate(reasons) if reason is not None})
    index, image, operations = context.acls.of(context.image), context.image, _operations(context)
    results: list[AclCreationResult] = []
    records: dict[AclKey, Versioned] = {}
    for each, no_resource in zip(rows, reasons, strict=True):
        reason = no_resource or _reason_no_entry(each, operations)
        results.append(_result(reason))
        record = _entry(each)
        if reason is None and (key := key_of(record)) not in index and key not in records:
            record.id = _new_id(context, image)
            records[key] = Versioned(record)
    if has_limits(context) and len(records) > MOST_RECORDS:
        return Decision(refused(request, Errors.POLICY_VIOLATION, TOO_LARGE))
    return Decision(CreateAclsResponse(results=results), tuple(records.values()))


def _result(reason_refused: str | None) -> AclCreationResult:
    error = Errors.NONE if reason_refused is None else Errors.INVALID_REQUEST
    return AclCreationResult(error_code=error, error_message=reason_refused or "")


def _is_of_a_filter(row: AclCreation) -> bool:
    """Whether it has a value of filters alone, which ResourcePattern and AccessControlEntry refuse."""
    return row.resource_pattern_type in (ANY, MATCH) or ANY in (row.resource_type, row.operation, row.permission_type)


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
    return OPERATIONS_OF_3_9 if context.config.release == "3.9.1" else OPERATIONS


def _reason_no_resource(row: AclCreation) -> str | None:
    """Why the entry's resource is invalid, or None (AclApis.handleCreateAcls)."""
    if row.resource_type == CLUSTER and row.resource_name != CLUSTER_NAME:
        return f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}"
    if not row.resource_name:
        return "Invalid empty resource name"
    return None


def _reason_no_entry(row: AclCreation, operations: range) -> str | None:
    """Why the entry of a valid resource is invalid, or None (AclControlManager.validateNewAcl)."""
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


# Deleted and described.


class Filter:
    """Which entries match (AclBindingFilter)."""

    def __init__(self, row: DeleteAclsFilter | DescribeAclsRequest) -> None:
        self.resource_type, self.name = row.resource_type_filter, row.resource_name_filter
        self.pattern_type = row.pattern_type_filter
        self.principal, self.host = row.principal_filter, row.host_filter
        self.operation, self.permission_type = row.operation, row.permission_type

    def reason_unknown(self, operations: range) -> str | None:
        """Why the filter is invalid, or None (AclControlManager.validateFilter)."""
        if self.resource_type not in RESOURCE_TYPES or self.pattern_type not in PATTERN_TYPES:
            return "Unknown patternFilter."
        if self.operation not in operations or self.permission_type not in PERMISSIONS:
            return "Unknown entryFilter."
        return None

    def matching(self, index: AclIndex, image: ClusterImage) -> list[Acl]:
        """The entries that match. Looks at the entries of one pattern if the filter names it, otherwise at all."""
        found: Iterable[Acl] = image.acls.values()
        if self.name is not None and self.resource_type != ANY and self.pattern_type in (LITERAL, PREFIXED):
            found = index.of_pattern((self.resource_type, self.pattern_type, self.name))
        return [each for each in found if self._matches_pattern(each) and self._matches_entry(each)]

    def _matches_pattern(self, acl: Acl) -> bool:
        """ResourcePatternFilter.matches."""
        if self.resource_type not in (ANY, acl.resource_type):
            return False
        if self.pattern_type not in (ANY, MATCH, acl.pattern_type):
            return False
        if self.name is None or self.name == acl.resource_name:
            return True
        if self.pattern_type != MATCH:
            return False
        if acl.pattern_type == LITERAL:
            return acl.resource_name == WILDCARD
        return self.name.startswith(acl.resource_name)

    def _matches_entry(self, acl: Acl) -> bool:
        """AccessControlEntryFilter.matches."""
        return (
            self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self.operation in (ANY, acl.operation)
            and self.permission_type in (ANY, acl.permission_type)
        )


def on_delete_acls(context: ControllerContext, request: DeleteAclsRequest, info: RequestInfo) -> Decision:
    """All entries that match one of the filters. Needs ALTER of the cluster; a 0 in a filter closes the connection."""
    if not is_parsed(request):
        return Decision()
    if (response := _refused_at_once(context, request, info, ALTER, _NO_AUTHORIZER)) is not None:
        return Decision(response)
    context.call_controller()
    index, operations = context.acls.of(context.image), _operations(context)
    results: list[DeleteAclsFilterResult] = []
    ids: dict[Uuid, None] = {}
    for each in map(Filter, request.filters):
        if (reason := each.reason_unknown(operations)) is not None:
            results.append(DeleteAclsFilterResult(error_code=Errors.INVALID_REQUEST, error_message=reason))
            continue
        found = each.matching(index, context.image)
        ids.update(dict.fromkeys(acl.id for acl in found))
        matching = [_matched(acl) for acl in found]
        results.append(DeleteAclsFilterResult(error_message=None, matching_acls=matching))
    if has_limits(context) and len(ids) > MOST_RECORDS:
        return Decision(refused(request, Errors.INVALID_REQUEST, _TOO_MANY))
    records = [Versioned(RemoveAccessControlEntryRecord(id=each)) for each in ids]
    return Decision(DeleteAclsResponse(filter_results=results), records)


def _matched(acl: Acl) -> DeleteAclsMatchingAcl:
    return DeleteAclsMatchingAcl(
        error_message=None,
        resource_type=acl.resource_type,
        resource_name=acl.resource_name,
        pattern_type=acl.pattern_type,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission_type,
    )


def on_describe_acls(context: ControllerContext, request: DescribeAclsRequest, info: RequestInfo) -> Decision:
    """The entries that match, by resource. Needs DESCRIBE of the cluster; a 0 closes the connection."""
    if info.is_forwarded or not is_parsed(request):  # No API that is forwarded: the envelope has the error.
        return Decision()
    no_authorizer = "No Authorizer is configured on the broker"
    if (response := _refused_at_once(context, request, info, DESCRIBE, no_authorizer)) is not None:
        return Decision(response)
    resources: dict[tuple[int, int, str], DescribeAclsResource] = {}
    for acl in Filter(request).matching(context.acls.of(context.image), context.image):
        key = acl.resource_type, acl.pattern_type, acl.resource_name
        if key not in resources:
            resources[key] = DescribeAclsResource(
                resource_type=acl.resource_type, resource_name=acl.resource_name, pattern_type=acl.pattern_type, acls=[]
            )
        entry = AclDescription(
            principal=acl.principal, host=acl.host, operation=acl.operation, permission_type=acl.permission_type
        )
        resources[key].acls.append(entry)
    return Decision(DescribeAclsResponse(resources=[*resources.values()]))
