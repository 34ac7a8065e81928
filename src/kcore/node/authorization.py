"""Decides whether ACLs allow a principal an operation, by the rules of AclAuthorizer or StandardAuthorizer.

A super user may do everything. For other principals a matching DENY entry wins over every ALLOW entry. If no entry
matches the resource, `allow.everyone.if.no.acl.found` decides.
"""

from collections.abc import Callable, Collection
from functools import lru_cache
from ipaddress import IPv6Address
from struct import Struct
from typing import Any, Final, Protocol

from kcore.metadata.acl_codes import (
    ALL,
    ALLOW,
    ALTER,
    ALTER_CONFIGS,
    CLUSTER,
    CLUSTER_NAME,
    DELETE,
    DESCRIBE,
    DESCRIBE_CONFIGS,
    LITERAL,
    OPERATIONS,
    READ,
    WILDCARD,
    WILDCARD_PRINCIPAL,
    WRITE,
)
from kcore.metadata.principal import KafkaPrincipal
from kcore.node.acl_hosts import is_block, is_in_block
from kcore.node.acls import Acl, AclsByResource

EIGHT_GROUPS: Final = Struct(">8H")  # The groups of an IPv6 address.
SOME_RESOURCE: Final = "hardcode"  # The resource name that Authorizer.authorizeByResourceType checks first.
_IMPLY: Final = {  # By operation: the allowed operations that imply it. DENY implies nothing.
    DESCRIBE: frozenset({DESCRIBE, READ, WRITE, DELETE, ALTER}),
    DESCRIBE_CONFIGS: frozenset({DESCRIBE_CONFIGS, ALTER_CONFIGS}),
}


class AuthorizerSettings(Protocol):
    """The settings of an authorizer."""

    @property
    def super_users(self) -> Collection[str]:
        """Principals that may do everything, such as User:admin."""

    @property
    def allow_everyone_if_no_acl_found(self) -> bool:
        """True if everybody may do everything with a resource that no entry matches."""


class Authorizer:
    """Decides by the ACL entries of a cluster what a principal may do."""

    def __init__(
        self,
        settings: AuthorizerSettings,
        acls: Callable[[], AclsByResource[Any, Any] | None],
        *,
        is_standard: bool,
        matches_blocks: bool = False,
    ) -> None:
        """`acls`: returns the entries, or None before the entries are read; then only super users may do anything.

        `is_standard`: apply the rules of StandardAuthorizer, otherwise the rules of AclAuthorizer. `matches_blocks`:
        an entry whose host is a block such as 10.0.0.0/8 applies to all addresses in the block.
        """
        self._settings, self._acls, self._is_standard = settings, acls, is_standard
        self._matches_blocks = matches_blocks

    def allows(
        self,
        principal: KafkaPrincipal,
        client_address: str,
        operation: int,
        resource_type: int = CLUSTER,
        name: str = CLUSTER_NAME,
    ) -> bool:
        """True if the principal may do the operation on the resource from this address.

        The cost grows with the entries of this resource, not with all entries. Source: AclAuthorizer.authorizeAction,
        StandardAuthorizerData.authorize.
        """
        principal_name = str(principal)
        if principal_name in self._settings.super_users:
            return True
        acls = self._acls()
        if acls is None:
            return False
        host = java_host_address(client_address)
        has_entries = allowed = False
        for acl in acls.of_resource(resource_type, name):
            has_entries = True
            if self._matches(acl, principal_name, host, operation):
                if acl.permission_type != ALLOW:
                    return False
                allowed = True
        return allowed if has_entries else self._settings.allow_everyone_if_no_acl_found

    def allows_on_any(self, principal: KafkaPrincipal, client_address: str, operation: int, resource_type: int) -> bool:
        """True if there may be a resource of the type on which the principal may do the operation.

        Reads all entries of the type. An entry that allows another operation does not count. StandardAuthorizer
        inherits Authorizer.authorizeByResourceType, which applies `allow.everyone.if.no.acl.found` only to the resource
        name "hardcode". Source: AclAuthorizer.authorizeByResourceType.
        """
        principal_name = str(principal)
        if principal_name in self._settings.super_users:
            return True
        acls = self._acls()
        if acls is None:
            return False
        allows_others = self._settings.allow_everyone_if_no_acl_found
        if self._is_standard:
            if self.allows(principal, client_address, operation, resource_type, SOME_RESOURCE):
                return True
            allows_others = False
        host = java_host_address(client_address)
        found = [
            each
            for each in acls.of_type(resource_type)
            if each.operation in (ALL, operation) and self._is_of(each, principal_name, host)
        ]
        denied = [each for each in found if each.permission_type != ALLOW]
        if any(each.pattern_type == LITERAL and each.resource_name == WILDCARD for each in denied):
            return False
        return allows_others or any(
            (each.pattern_type == LITERAL and each.resource_name == WILDCARD)
            or not any(_covers(no, each) for no in denied)
            for each in found
            if each.permission_type == ALLOW
        )

    def _is_of(self, acl: Acl, principal: str, host: str) -> bool:
        if acl.principal not in (principal, WILDCARD_PRINCIPAL):
            return False
        if acl.host in (host, WILDCARD):
            return True
        return self._matches_blocks and is_block(acl.host) and is_in_block(host, acl.host)

    def _matches(self, acl: Acl, principal: str, host: str, operation: int) -> bool:
        """True if the entry applies to the principal, host and operation (StandardAuthorizerData.findResult).

        The caller has checked the resource.
        """
        if not self._is_of(acl, principal, host):
            return False
        if acl.operation in (ALL, operation):
            return True
        return acl.permission_type == ALLOW and acl.operation in _IMPLY.get(operation, ())


def _covers(denied: Acl, allowed: Acl) -> bool:
    """True if the `denied` entry denies every resource that the pattern of `allowed` matches."""
    if denied.pattern_type == LITERAL:
        return allowed.pattern_type == LITERAL and allowed.resource_name == denied.resource_name
    return allowed.resource_name.startswith(denied.resource_name)


@lru_cache(maxsize=4096)
def java_host_address(address: str) -> str:
    """The address as ACLs write it, in the form of InetAddress.getHostAddress.

    Java writes all eight groups of an IPv6 address. It writes an IPv4-mapped IPv6 address as IPv4.
    """
    if ":" not in address:
        return address
    try:
        parsed = IPv6Address(address)
    except ValueError:
        return address
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    groups = ":".join(f"{number:x}" for number in EIGHT_GROUPS.unpack(parsed.packed))
    return f"{groups}%{parsed.scope_id}" if parsed.scope_id else groups


class Requester(Protocol):
    """The sender of a request."""

    @property
    def principal(self) -> KafkaPrincipal:
        """The authenticated principal."""


def refusal(requester: Requester, operation: int) -> str:
    """The error message for a principal without permission on the cluster (AuthHelper.authorizeClusterOperation)."""
    return f"Principal {requester.principal} needs {OPERATIONS[operation]} permission."
