"""CreateAcls, DeleteAcls and DescribeAcls (KIP-140, KIP-290): one znode has the entries of a resource.

A znode is written only if it has the version that was read, because brokers may write it, too. A notification makes
all nodes read it again. Source: AclAuthorizer, AclApis of 3.9.1.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple, TypeAlias

from kcore.errors import TableError
from kcore.metadata.acl_codes import ANY, LITERAL, OPERATIONS, PATTERN_TYPES, PERMISSIONS, PREFIXED, RESOURCE_TYPES
from kcore.metadata.zookeeper.znode_acls import (
    CHANGE_PREFIX,
    CHANGES,
    AclBinding,
    Resource,
    decode_acls,
    encode_acl_change,
    encode_acls,
    resource_path,
    resource_text,
)
from kcore.metadata.zookeeper.znode_names import is_znode_name
from kcore.metadata.zookeeper.znode_operations import (
    MOST_BYTES,
    Create,
    Delete,
    Node,
    Operation,
    OperationResult,
    SetData,
)
from kcore.node.acls import (
    FOR_FILTERS,
    Filter,
    described,
    is_of_a_filter,
    matched,
    reason_no_resource,
    resource_of,
)
from kcore.node.zk.acls import ZkAcls
from kcore.node.zk.notices import TextNotice
from kcore.node.zk.znode_steps import ZnodeSteps, log_notice, read_nodes, write_nodes
from kcore.protocol_errors import Errors
from kcore.schema.acls import (
    AclCreation,
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
    DescribeAclsRequest,
    DescribeAclsResponse,
)
from kcore.schema.structure import Message

MOST_TRIES: Final = 10  # Attempts to write the entries of a resource (AclAuthorizer.maxUpdateRetries).
NO_AUTHORIZER: Final = "No Authorizer is configured."
FAILED: Final = "Failed to create ACL"  # AclAuthorizer.createAcls
TOO_LARGE: Final = "A resource with so many ACLs does not fit into ZooKeeper."

Bindings: TypeAlias = tuple[AclBinding, ...]
Change: TypeAlias = Callable[[Bindings], Bindings]


class Outcome(NamedTuple):
    """The result of changing a resource's entries; with an error they are unchanged."""

    before: Bindings
    after: Bindings
    error: Errors = Errors.NONE
    message: str | None = None


def create_acls(acls: ZkAcls | None, request: CreateAclsRequest) -> ZnodeSteps[Message]:
    """Creates entries, by one write for each resource; skips existing ones. `acls`: None without an authorizer."""
    rows = request.creations
    if acls is None:
        return CreateAclsResponse(results=[_result(Errors.SECURITY_DISABLED, NO_AUTHORIZER) for _ in rows])
    reasons = [_reason_no_binding(each) for each in rows]
    added: dict[Resource, list[AclBinding]] = {}
    for row, reason in zip(rows, reasons, strict=True):
        if reason is None:
            added.setdefault(resource_of(_binding(row)), []).append(_binding(row))
    outcomes = yield from _update(acls, {key: _adding(new) for key, new in added.items()})
    results = []
    for row, reason in zip(rows, reasons, strict=True):
        if reason is not None:
            results.append(_result(Errors.INVALID_REQUEST, reason))
        else:
            outcome = outcomes[resource_of(_binding(row))]
            results.append(_result(outcome.error, outcome.message))
    return CreateAclsResponse(results=results)


def _result(error: Errors, message: str | None) -> AclCreationResult:
    return AclCreationResult(error_code=error, error_message=message or "")


def _binding(row: AclCreation) -> AclBinding:
    resource = row.resource_type, row.resource_pattern_type, row.resource_name
    return AclBinding(*resource, row.principal, row.host, row.operation, row.permission_type)


def _adding(new: Iterable[AclBinding]) -> Change:
    return lambda before: tuple(dict.fromkeys((*before, *new)))


def _reason_no_binding(row: AclCreation) -> str | None:
    """The reason why the entry is invalid, or None (validateAclBinding)."""
    if is_of_a_filter(row):
        return FOR_FILTERS
    if (reason := reason_no_resource(row)) is not None:
        return reason
    codes = (
        (row.resource_type, RESOURCE_TYPES),
        (row.resource_pattern_type, PATTERN_TYPES),
        (row.operation, OPERATIONS),
        (row.permission_type, PERMISSIONS),
    )
    if any(code not in known for code, known in codes) or not is_znode_name(row.resource_name):
        return FAILED
    return None if ":" in row.principal else FAILED


def delete_acls(acls: ZkAcls | None, request: DeleteAclsRequest) -> ZnodeSteps[Message]:
    """Deletes the entries that match any filter; an entry is in the result of the first filter that it matches."""
    filters = [*map(Filter, request.filters)]
    if acls is None:
        error = DeleteAclsFilterResult(error_code=Errors.SECURITY_DISABLED, error_message=NO_AUTHORIZER)
        return DeleteAclsResponse(filter_results=[error for _ in filters])
    known = (resource_of(each) for each in acls.every() if any(f.matches_pattern(each) for f in filters))
    resources = dict.fromkeys([*known, *_named(filters)])
    outcomes = yield from _update(acls, {each: _removing(filters) for each in resources})
    matching: list[list[DeleteAclsMatchingAcl]] = [[] for _ in filters]
    for outcome in outcomes.values():
        for binding in outcome.before:
            place = next((place for place, each in enumerate(filters) if each.matches(binding)), None)
            if place is not None:
                found = matched(binding)
                found.error_code, found.error_message = outcome.error, outcome.message
                matching[place].append(found)
    results = [DeleteAclsFilterResult(error_message=None, matching_acls=each) for each in matching]
    return DeleteAclsResponse(filter_results=results)


def _named(filters: Iterable[Filter]) -> Iterable[Resource]:
    """The resources that filters name; this node may not have read their entries yet (filterToResources)."""
    for each in filters:
        if each.resource_type in RESOURCE_TYPES and each.name is not None and is_znode_name(each.name):
            patterns = (LITERAL, PREFIXED) if each.pattern_type == ANY else (each.pattern_type,)
            yield from ((each.resource_type, pattern, each.name) for pattern in patterns if pattern in PATTERN_TYPES)


def _removing(filters: Iterable[Filter]) -> Change:
    return lambda before: tuple(each for each in before if not any(found.matches(each) for found in filters))


def describe_acls(acls: ZkAcls | None, request: DescribeAclsRequest) -> Message:
    """The matching entries, by resource. Active and standby controllers and brokers all serve this request."""
    if acls is None:
        return DescribeAclsResponse(
            error_code=Errors.SECURITY_DISABLED, error_message="No Authorizer is configured on the broker"
        )
    return DescribeAclsResponse(error_message=None, resources=described(filter(Filter(request).matches, acls.every())))


def _update(acls: ZkAcls, changes: Mapping[Resource, Change]) -> ZnodeSteps[dict[Resource, Outcome]]:
    """Changes the entries of each resource; retries if another node wrote the znode meanwhile (updateResourceAcls)."""
    left, outcomes = [*changes], dict[Resource, Outcome]()
    for _ in range(MOST_TRIES):
        if not left:
            break
        nodes = yield from read_nodes([resource_path(each) for each in left])
        operations: list[Operation] = []
        tried: list[Resource] = []
        for resource, node in zip(left, nodes, strict=True):
            outcome = outcomes[resource] = _changed(resource, node, changes[resource])
            if outcome.error is Errors.NONE and outcome.after != outcome.before:
                path = f"{CHANGES[resource[1]]}/{CHANGE_PREFIX}"
                note = Create(path, encode_acl_change(resource), sequential=True)
                operations += [_operation(resource, node, outcome.after), note]
                tried.append(resource)
            elif outcome.error is Errors.NONE:
                acls.update(resource, outcome.after)
        results = (yield from write_nodes(operations)) if operations else []
        left = []
        for resource, result in zip(tried, results[::2], strict=True):
            if result is OperationResult.DONE:
                acls.update(resource, outcomes[resource].after)
                before, after = {*outcomes[resource].before}, {*outcomes[resource].after}
                counts = f"{len(after - before)} added, {len(before - after)} removed"
                yield from log_notice(TextNotice(f"ACLs of {resource_text(resource)} are changed: {counts}"))
            else:
                left.append(resource)
    for resource in left:
        outcomes[resource] = outcomes[resource]._replace(
            error=Errors.UNKNOWN_SERVER_ERROR,
            message=f"Other nodes changed these ACLs during each of {MOST_TRIES} attempts.",
        )
    return outcomes


def _changed(resource: Resource, node: Node | None, change: Change) -> Outcome:
    try:
        before = () if node is None else decode_acls(resource, node.data)
    except TableError:
        return Outcome((), (), Errors.UNKNOWN_SERVER_ERROR, "The znode with these ACLs cannot be read.")
    after = change(before)
    if after != before and len(encode_acls(after)) > MOST_BYTES:
        return Outcome(before, before, Errors.INVALID_REQUEST, TOO_LARGE)
    return Outcome(before, after)


def _operation(resource: Resource, node: Node | None, after: Bindings) -> Operation:
    path = resource_path(resource)
    if node is None:
        return Create(path, encode_acls(after))
    return SetData(path, encode_acls(after), node.version) if after else Delete(path, node.version)
