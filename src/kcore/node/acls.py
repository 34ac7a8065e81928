"""ACL entries of both modes: an index by resource, filters, and the form of entries in requests and responses.

An entry is any object with the attributes of `Acl`, such as a record of the metadata log. Source: AclCache,
AclBindingFilter, ResourcePatternFilter and AclApis.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import Final, Generic, Protocol, TypeAlias, TypeVar

from kcore.metadata.acl_codes import ANY, CLUSTER, CLUSTER_NAME, LITERAL, MATCH, PREFIXED, WILDCARD
from kcore.schema.acls import (
    AclCreation,
    AclDescription,
    DeleteAclsFilter,
    DeleteAclsMatchingAcl,
    DescribeAclsRequest,
    DescribeAclsResource,
)
from kcore.steps import Steps

# The codes to which Kafka gives a name.
RESOURCE_TYPES, PATTERN_TYPES, OPERATIONS, PERMISSIONS = range(8), range(5), range(16), range(4)
OPERATIONS_OF_3_9: Final = range(15)  # OPERATIONS without TWO_PHASE_COMMIT, which 4.x adds.
FOR_FILTERS: Final = "ANY and MATCH are for filters: no entry can have them."
DESCRIBED_AT_ONCE: Final = 250  # Entries of one step of a description: each takes up to 4 us.

Resource: TypeAlias = tuple[int, int, str]  # Type, pattern type and name.
AclKey: TypeAlias = tuple[int, int, str, str, str, int, int]  # Resource, principal, host, operation, permission type.


class Acl(Protocol):
    """An ACL entry with its resource pattern."""

    @property
    def resource_type(self) -> int:
        """The code of the ResourceType."""

    @property
    def pattern_type(self) -> int:
        """LITERAL or PREFIXED."""

    @property
    def resource_name(self) -> str:
        """The name in the resource pattern."""

    @property
    def principal(self) -> str:
        """A principal such as User:alice."""

    @property
    def host(self) -> str:
        """An IP address, or the wildcard."""

    @property
    def operation(self) -> int:
        """The code of the AclOperation."""

    @property
    def permission_type(self) -> int:
        """DENY or ALLOW."""


K = TypeVar("K", bound=Hashable)
A = TypeVar("A", bound=Acl)


def resource_of(acl: Acl) -> Resource:
    """The resource pattern of an entry, as a key of an index."""
    return acl.resource_type, acl.pattern_type, acl.resource_name


def key_of(acl: Acl) -> AclKey:
    """All values of an ACL except its id (StandardAcl)."""
    return (*resource_of(acl), acl.principal, acl.host, acl.operation, acl.permission_type)


class AclsByResource(Generic[K, A]):
    """An index of entries by resource pattern, so that a decision reads only the entries that match its resource.

    A pattern that is not LITERAL matches all names that begin with the pattern's name, even if its code is unknown.
    Nobody can create an entry with an unknown code, but a log may have one (StandardAuthorizerData.checkSection).
    """

    def __init__(self) -> None:
        self._by_resource: dict[Resource, dict[K, A]] = {}
        # By resource type, pattern type and length of a name: the number of entries.
        self._prefix_lengths: dict[int, dict[int, Counter[int]]] = {}

    def clear(self) -> None:
        """Remove all entries."""
        self._by_resource, self._prefix_lengths = {}, {}

    def add(self, key: K, acl: A) -> None:
        """Add an entry under a key that the index does not have."""
        self._by_resource.setdefault(resource_of(acl), {})[key] = acl
        if acl.pattern_type != LITERAL:
            by_pattern = self._prefix_lengths.setdefault(acl.resource_type, {})
            by_pattern.setdefault(acl.pattern_type, Counter())[len(acl.resource_name)] += 1

    def remove(self, key: K, acl: A) -> None:
        """Remove the entry that was added under this key."""
        resource = resource_of(acl)
        entries = self._by_resource[resource]
        del entries[key]
        if not entries:
            del self._by_resource[resource]
        if acl.pattern_type != LITERAL:
            lengths = self._prefix_lengths[acl.resource_type][acl.pattern_type]
            lengths[len(acl.resource_name)] -= 1
            if not lengths[len(acl.resource_name)]:
                del lengths[len(acl.resource_name)]

    def of_pattern(self, resource: Resource) -> Iterable[A]:
        """The entries with exactly this resource pattern."""
        return self._by_resource.get(resource, {}).values()

    def of_resource(self, resource_type: int, name: str) -> Iterator[A]:
        """The entries whose pattern matches the resource: by its name, by the wildcard, or by a prefix."""
        yield from self.of_pattern((resource_type, LITERAL, name))
        if name != WILDCARD:
            yield from self.of_pattern((resource_type, LITERAL, WILDCARD))
        for pattern_type, lengths in self._prefix_lengths.get(resource_type, {}).items():
            for length in lengths:
                if length <= len(name):
                    yield from self.of_pattern((resource_type, pattern_type, name[:length]))

    def of_type(self, resource_type: int) -> Iterator[A]:
        """The entries of all resources of a type."""
        for (kind, _, _), entries in self._by_resource.items():
            if kind == resource_type:
                yield from entries.values()


class Filter:
    """A filter for entries (AclBindingFilter)."""

    def __init__(self, row: DeleteAclsFilter | DescribeAclsRequest) -> None:
        self.resource_type, self.name = row.resource_type_filter, row.resource_name_filter
        self.pattern_type = row.pattern_type_filter
        self.principal, self.host = row.principal_filter, row.host_filter
        self.operation, self.permission_type = row.operation, row.permission_type

    def reason_unknown(self, operations: range) -> str | None:
        """Kafka's error message if the filter is invalid, otherwise None (AclControlManager.validateFilter)."""
        if self.resource_type not in RESOURCE_TYPES or self.pattern_type not in PATTERN_TYPES:
            return "Unknown patternFilter."
        if self.operation not in operations or self.permission_type not in PERMISSIONS:
            return "Unknown entryFilter."
        return None

    def matching(self, index: AclsByResource[K, A], every: Iterable[A]) -> list[A]:
        """The matching entries."""
        return [each for each in self.candidates(index, every) if self.matches(each)]

    def candidates(self, index: AclsByResource[K, A], every: Iterable[A]) -> Iterable[A]:
        """The entries that may match: those with the pattern that the filter names, or `every` entry."""
        if self.name is not None and self.resource_type != ANY and self.pattern_type in (LITERAL, PREFIXED):
            return index.of_pattern((self.resource_type, self.pattern_type, self.name))
        return every

    def matches(self, acl: Acl) -> bool:
        """True if the filter matches the entry and its resource (AclBindingFilter.matches)."""
        return self.matches_pattern(acl) and self._matches_entry(acl)

    def matches_pattern(self, acl: Acl) -> bool:
        """True if the filter matches the entry's resource pattern (ResourcePatternFilter.matches)."""
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
        """True if the filter matches the entry apart from its resource (AccessControlEntryFilter.matches)."""
        return (
            self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self.operation in (ANY, acl.operation)
            and self.permission_type in (ANY, acl.permission_type)
        )


# In requests and responses.


def is_of_a_filter(row: AclCreation) -> bool:
    """True if the row has a code that only filters may have: ANY or MATCH.

    Source: the constructors of ResourcePattern and AccessControlEntry.
    """
    return row.resource_pattern_type in (ANY, MATCH) or ANY in (row.resource_type, row.operation, row.permission_type)


def reason_no_resource(row: AclCreation) -> str | None:
    """Kafka's error message if the entry's resource is invalid, otherwise None (AclApis.handleCreateAcls)."""
    if row.resource_type == CLUSTER and row.resource_name != CLUSTER_NAME:
        return f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}"
    if not row.resource_name:
        return "Invalid empty resource name"
    return None


def matched(acl: Acl) -> DeleteAclsMatchingAcl:
    """A deleted entry, as DeleteAcls reports it."""
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


def described(acls: Sequence[Acl]) -> Steps[list[DescribeAclsResource]]:
    """The entries grouped by resource, in the order of each resource's first entry; some entries in a step."""
    by_resource: dict[Resource, DescribeAclsResource] = {}
    for place, acl in enumerate(acls, 1):
        if place % DESCRIBED_AT_ONCE == 0:
            yield
        key = resource_of(acl)
        if key not in by_resource:
            by_resource[key] = DescribeAclsResource(
                resource_type=acl.resource_type,
                resource_name=acl.resource_name,
                pattern_type=acl.pattern_type,
                acls=[],
            )
        entry = AclDescription(
            principal=acl.principal, host=acl.host, operation=acl.operation, permission_type=acl.permission_type
        )
        by_resource[key].acls.append(entry)
    return [*by_resource.values()]
