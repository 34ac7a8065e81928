"""A node's copy of the ACLs in ZooKeeper, and the authorizer that decides by it. Source: AclAuthorizer of 3.9.1.

The node reads all ACLs when it starts, and the ACLs of a resource when a notification names the resource. A node that
writes the entries of a resource updates its copy at once. Elections do not change the copy.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Final, NamedTuple

from kcore.metadata.acl_codes import ALL, DENY, WILDCARD, WILDCARD_PRINCIPAL
from kcore.metadata.zookeeper.znode_acls import AclBinding, Resource
from kcore.node.acls import AclsByResource, resource_of
from kcore.node.authorization import Authorizer
from kcore.protocol_errors import Errors
from kcore.steps import Steps, lists_of, sorting


class AclAuthorizerSettings(NamedTuple):
    """The settings of AclAuthorizer; `super_users` has principals such as "User:admin"."""

    super_users: frozenset[str] = frozenset()
    allow_everyone_if_no_acl_found: bool = False


ACL_AUTHORIZER: Final = "kafka.security.authorizer.AclAuthorizer"
READ_AT_ONCE: Final = 500  # Entries that a step compares or sorts: each takes up to 3 us.
AUTHORIZER_NAMES: Final = ("authorizer.class.name", "super.users", "allow.everyone.if.no.acl.found")


def acl_authorizer_settings(given: Mapping[str, str]) -> AclAuthorizerSettings | None:
    """The settings in a server.properties; None without an authorizer. InvalidConfigurationException if invalid."""
    kind = given.get("authorizer.class.name", "").strip()
    if not kind:
        return None
    if kind != ACL_AUTHORIZER:
        Errors.INVALID_CONFIG.raise_for(f"authorizer.class.name={kind}: kcore supports only {ACL_AUTHORIZER}")
    users = frozenset(each.strip() for each in given.get("super.users", "").split(";") if each.strip())
    if wrong := sorted(each for each in users if ":" not in each):
        Errors.INVALID_CONFIG.raise_for(f"super.users: {wrong[0]} is not a principal such as User:name")
    everyone = given.get("allow.everyone.if.no.acl.found", "false").strip().lower()
    if everyone not in ("true", "false"):
        Errors.INVALID_CONFIG.raise_for(f"allow.everyone.if.no.acl.found={everyone}: must be true or false")
    return AclAuthorizerSettings(users, everyone == "true")


class ZkAcls(AclsByResource[AclBinding, AclBinding]):
    """A node's copy of the ACL entries, by resource."""

    def __init__(self) -> None:
        super().__init__()
        self.is_read = False  # Until all entries are read, only super users are allowed anything.
        self._readable: dict[Resource, tuple[AclBinding, ...]] = {}  # The entries of each readable resource.
        self._changes: list[set[Resource]] = []  # One set for each `changes` that has not ended.

    @property
    def resources(self) -> set[Resource]:
        """The resources that have entries."""
        return {*self._by_resource}

    def update(self, resource: Resource, bindings: Sequence[AclBinding] | None) -> None:
        """Sets all entries of a resource. None: the znode is unreadable, so only super users may use the resource."""
        for changed in self._changes:
            changed.add(resource)
        for each in [*self.of_pattern(resource)]:
            self.remove(each, each)
        self._readable.pop(resource, None)
        if bindings:
            self._readable[resource] = tuple(bindings)
        elif bindings is None:
            bindings = [AclBinding(*resource, WILDCARD_PRINCIPAL, WILDCARD, ALL, DENY)]
        for each in bindings:
            self.add(each, each)

    @contextmanager
    def changes(self) -> Iterator[set[Resource]]:
        """A set to which each `update` adds its resource until the context ends; the caller may clear the set."""
        changed = set[Resource]()
        self._changes.append(changed)
        try:
            yield changed
        finally:
            self._changes = [each for each in self._changes if each is not changed]

    def keep_only(self, resources: Iterable[Resource]) -> None:
        """Removes the entries of all other resources."""
        for each in self.resources - {*resources}:
            self.update(each, ())

    def matching(self, matches: Callable[[AclBinding], bool]) -> Steps[list[AclBinding]]:
        """The readable entries that match, ordered by resource; those that the copy has when the steps begin."""
        found: list[AclBinding] = []
        for part in lists_of(chain.from_iterable(self._readable.copy().values()), READ_AT_ONCE):
            if len(part) == READ_AT_ONCE:
                yield
            found += filter(matches, part)
        return (yield from sorting(found, resource_of, READ_AT_ONCE))


class AclAuthorizer(Authorizer):
    """Allows or denies operations by the node's copy of the ACLs in ZooKeeper."""

    def __init__(self, settings: AclAuthorizerSettings, acls: ZkAcls) -> None:
        super().__init__(settings, lambda: acls if acls.is_read else None, is_standard=False)
        self.acls = acls
