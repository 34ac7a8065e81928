"""The ACLs in ZooKeeper, as a node of ZooKeeper mode knows them. Source: AclAuthorizer's caches.

They are read when the process starts and whenever a notification names their resource. Whoever writes a resource's
entries makes them true here, too. They outlive an election: every node decides by them who may ask what of it.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from kcore.controller.rules.acls import AclsByResource
from kcore.controller.rules.authorization import is_allowed, is_allowed_on_any
from kcore.controller.zk.authorizer_settings import AclAuthorizerSettings
from kcore.metadata.acl_codes import ALL, CLUSTER, CLUSTER_NAME, DENY, WILDCARD, WILDCARD_PRINCIPAL
from kcore.metadata.principal import KafkaPrincipal
from kcore.metadata.zookeeper.znode_acls import AclBinding, Resource


class ZkAcls(AclsByResource[AclBinding, AclBinding]):
    """Entries by resource."""

    def __init__(self) -> None:
        super().__init__()
        self.is_read = False  # Until all are known nobody but super users may do anything.
        self._unreadable: set[Resource] = set()

    @property
    def resources(self) -> set[Resource]:
        """Those that have entries."""
        return {*self._by_resource}

    def update(self, resource: Resource, bindings: Sequence[AclBinding] | None) -> None:
        """All entries of a resource; None where its znode cannot be read: then it is denied to all but super users."""
        for each in [*self.of_pattern(resource)]:
            self.remove(each, each)
        self._unreadable.discard(resource)
        if bindings is None:
            self._unreadable.add(resource)
            bindings = [AclBinding(*resource, WILDCARD_PRINCIPAL, WILDCARD, ALL, DENY)]
        for each in bindings:
            self.add(each, each)

    def keep_only(self, resources: Iterable[Resource]) -> None:
        """Other resources have no entries any more."""
        for each in self.resources - {*resources}:
            self.update(each, ())

    def every(self) -> Iterator[AclBinding]:
        """All entries that could be read, by resource."""
        for resource in sorted(self.resources - self._unreadable):
            yield from self.of_pattern(resource)


class AclAuthorizer(NamedTuple):
    """Decides by the ACLs (AclAuthorizer)."""

    settings: AclAuthorizerSettings
    acls: ZkAcls

    def allows(
        self,
        principal: KafkaPrincipal,
        client_address: str,
        operation: int,
        resource_type: int = CLUSTER,
        name: str = CLUSTER_NAME,
    ) -> bool:
        """Whether the principal may do the operation on the resource."""
        if not self.acls.is_read:
            return str(principal) in self.settings.super_users
        return is_allowed(self.settings, self.acls, principal, client_address, operation, resource_type, name)

    def allows_on_any(self, principal: KafkaPrincipal, client_address: str, operation: int, resource_type: int) -> bool:
        """Whether there may be a resource of that type on which it is allowed the operation."""
        if not self.acls.is_read:
            return str(principal) in self.settings.super_users
        return is_allowed_on_any(self.settings, self.acls, principal, client_address, operation, resource_type)
