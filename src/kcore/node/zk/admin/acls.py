"""CreateAcls, DeleteAcls and DescribeAcls (KIP-140, KIP-290): one znode has the entries of a resource.

A znode is written only if it has the version that was read, because brokers may write it, too. A notification makes
all nodes read it again. Source: AclAuthorizer, AclApis of 3.9.1.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
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
from kcore.node.zk.znode_steps import (
    Pause,
    ZnodeSteps,
    log_notice,
    pause_after,
    paused,
    read_nodes,
    write_nodes,
)
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
from kcore.steps import Steps

ENTRIES_AT_ONCE: Final = 250  # Entries or filters of one part: each takes up to 10 us.
RESOURCES_AT_ONCE: Final = 50  # Resources of one part: each takes up to 50 us.
COMPARED_AT_ONCE: Final = 4_000  # Comparisons of entries with filters in one part: each takes up to 1 us.
MOST_TRIES: Final = 10  # Attempts to write the entries of a resource (AclAuthorizer.maxUpdateRetries).
NO_AUTHORIZER: Final = "No Authorizer is configured."
FAILED: Final = "Failed to create ACL"  # AclAuthorizer.createAcls
TOO_LARGE: Final = "A resource with so many ACLs does not fit into ZooKeeper."

Bindings: TypeAlias = tuple[AclBinding, ...]
Change: TypeAlias = Callable[[Bindings], ZnodeSteps[Bindings]]
"""Returns the entries of a resource after a change."""


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
    reasons: list[str | None] = []
    added: dict[Resource, list[AclBinding]] = {}
    for place, row in enumerate(rows, 1):
        yield from pause_after(place, ENTRIES_AT_ONCE)
        reasons.append(reason := _reason_no_binding(row))
        if reason is None:
            binding = _binding(row)
            added.setdefault(resource_of(binding), []).append(binding)
    outcomes = yield from _update(acls, {key: _adding(new) for key, new in added.items()})
    results = []
    for place, (row, reason) in enumerate(zip(rows, reasons, strict=True), 1):
        yield from pause_after(place, ENTRIES_AT_ONCE)
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
    def added(before: Bindings) -> ZnodeSteps[Bindings]:
        yield from ()
        return tuple(dict.fromkeys((*before, *new)))

    return added


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
    if acls is None:
        error = DeleteAclsFilterResult(error_code=Errors.SECURITY_DISABLED, error_message=NO_AUTHORIZER)
        return DeleteAclsResponse(filter_results=[error for _ in request.filters])
    filters: list[Filter] = []
    resources: dict[Resource, None] = {}
    for place, row in enumerate(request.filters, 1):
        yield from pause_after(place, ENTRIES_AT_ONCE)
        filters.append(Filter(row))
    comparing = _Comparing(filters)
    for binding in (yield from paused(acls.matching(lambda _: True))):
        if (
            resource_of(binding) not in resources
            and (yield from comparing.first(binding, Filter.matches_pattern)) is not None
        ):
            resources[resource_of(binding)] = None
    for place, each in enumerate(filters, 1):
        yield from pause_after(place, ENTRIES_AT_ONCE)
        resources.update(dict.fromkeys(_named(each)))
    outcomes = yield from _update(acls, dict.fromkeys(resources, comparing.unmatched))
    matching: list[list[DeleteAclsMatchingAcl]] = [[] for _ in filters]
    for outcome in outcomes.values():
        for binding in outcome.before:
            first = yield from comparing.first(binding)
            if first is not None:
                found = matched(binding)
                found.error_code, found.error_message = outcome.error, outcome.message
                matching[first].append(found)
    results = []
    for place, of_filter in enumerate(matching, 1):
        yield from pause_after(place, ENTRIES_AT_ONCE)
        results.append(DeleteAclsFilterResult(error_message=None, matching_acls=of_filter))
    return DeleteAclsResponse(filter_results=results)


def _named(wanted: Filter) -> Iterable[Resource]:
    """The resources that a filter names; this node may not have read their entries yet (filterToResources)."""
    if wanted.resource_type in RESOURCE_TYPES and wanted.name is not None and is_znode_name(wanted.name):
        patterns = (LITERAL, PREFIXED) if wanted.pattern_type == ANY else (wanted.pattern_type,)
        yield from ((wanted.resource_type, pattern, wanted.name) for pattern in patterns if pattern in PATTERN_TYPES)


class _Comparing:
    """Compares entries with the filters of a request, in parts: there may be many of both."""

    def __init__(self, filters: Sequence[Filter]) -> None:
        self._filters = filters
        self._compared = 0  # Comparisons in the present part.

    def first(
        self, binding: AclBinding, matches: Callable[[Filter, AclBinding], bool] = Filter.matches
    ) -> ZnodeSteps[int | None]:
        """The place of the first filter that matches the entry; None if none does."""
        for begin in range(0, len(self._filters), COMPARED_AT_ONCE):
            some = self._filters[begin : begin + COMPARED_AT_ONCE]
            place = next((place for place, each in enumerate(some, begin) if matches(each, binding)), None)
            self._compared += len(some) if place is None else place - begin + 1
            if self._compared >= COMPARED_AT_ONCE:
                self._compared = 0
                yield Pause()
            if place is not None:
                return place
        return None

    def unmatched(self, before: Bindings) -> ZnodeSteps[Bindings]:
        """The entries that no filter matches (a `Change`)."""
        kept = []
        for each in before:
            if (yield from self.first(each)) is None:
                kept.append(each)
        return tuple(kept)


def describe_acls(acls: ZkAcls | None, request: DescribeAclsRequest) -> Steps[Message]:
    """The matching entries, by resource. Active and standby controllers and brokers all serve this request."""
    if acls is None:
        return DescribeAclsResponse(
            error_code=Errors.SECURITY_DISABLED, error_message="No Authorizer is configured on the broker"
        )
    resources = yield from described((yield from acls.matching(Filter(request).matches)))
    return DescribeAclsResponse(error_message=None, resources=resources)


def _update(acls: ZkAcls, changes: Mapping[Resource, Change]) -> ZnodeSteps[dict[Resource, Outcome]]:
    """Changes the entries of each resource; retries if another node wrote the znode meanwhile (updateResourceAcls)."""
    left, outcomes = [*changes], dict[Resource, Outcome]()
    with acls.changes() as changed:
        for _ in range(MOST_TRIES):
            if left:
                left = yield from _tried(acls, {each: changes[each] for each in left}, outcomes, changed)
    for resource in left:
        outcomes[resource] = outcomes[resource]._replace(
            error=Errors.UNKNOWN_SERVER_ERROR,
            message=f"Other nodes changed these ACLs during each of {MOST_TRIES} attempts.",
        )
    return outcomes


def _tried(
    acls: ZkAcls, changes: Mapping[Resource, Change], outcomes: dict[Resource, Outcome], changed: set[Resource]
) -> ZnodeSteps[list[Resource]]:
    """One attempt of `_update`; returns the resources whose znodes another node wrote meanwhile.

    `changed` gets the resources that the node reads again meanwhile, after a notification. Their entries in `acls` may
    be newer than those of the attempt, so they stay.
    """
    paths: list[str] = []
    for place, resource in enumerate(changes, 1):
        yield from pause_after(place, ENTRIES_AT_ONCE)
        paths.append(resource_path(resource))
    changed.clear()
    nodes = yield from read_nodes(paths)
    operations: list[Operation] = []
    tried: list[Resource] = []
    for place, (resource, node) in enumerate(zip(changes, nodes, strict=True), 1):
        yield from pause_after(place, RESOURCES_AT_ONCE)
        outcome = outcomes[resource] = yield from _changed(resource, node, changes[resource])
        if outcome.error is Errors.NONE and outcome.after != outcome.before:
            path = f"{CHANGES[resource[1]]}/{CHANGE_PREFIX}"
            note = Create(path, encode_acl_change(resource), sequential=True)
            operations += [_operation(resource, node, outcome.after), note]
            tried.append(resource)
        elif outcome.error is Errors.NONE and resource not in changed:
            acls.update(resource, outcome.after)
    changed.clear()
    results = (yield from write_nodes(operations)) if operations else []
    left = []
    for place, (resource, result) in enumerate(zip(tried, results[::2], strict=True), 1):
        yield from pause_after(place, RESOURCES_AT_ONCE)
        if result is OperationResult.DONE:
            if resource not in changed:
                acls.update(resource, outcomes[resource].after)
            before, after = {*outcomes[resource].before}, {*outcomes[resource].after}
            counts = f"{len(after - before)} added, {len(before - after)} removed"
            yield from log_notice(TextNotice(f"ACLs of {resource_text(resource)} are changed: {counts}"))
        else:
            left.append(resource)
    return left


def _changed(resource: Resource, node: Node | None, change: Change) -> ZnodeSteps[Outcome]:
    try:
        before = () if node is None else decode_acls(resource, node.data)
    except TableError:
        return Outcome((), (), Errors.UNKNOWN_SERVER_ERROR, "The znode with these ACLs cannot be read.")
    after = yield from change(before)
    if after != before and len(encode_acls(after)) > MOST_BYTES:
        return Outcome(before, before, Errors.INVALID_REQUEST, TOO_LARGE)
    return Outcome(before, after)


def _operation(resource: Resource, node: Node | None, after: Bindings) -> Operation:
    path = resource_path(resource)
    if node is None:
        return Create(path, encode_acls(after))
    return SetData(path, encode_acls(after), node.version) if after else Delete(path, node.version)
