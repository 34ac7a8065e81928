"""Whether a principal may do what it asks for, by ACLs: the rule of AclAuthorizer and of StandardAuthorizer.

A super user may do everything. Otherwise a DENY entry that matches wins over every ALLOW entry. Where a resource has no
entry at all, `allow.everyone.if.no.acl.found` decides."""

from collections.abc import Collection
from functools import lru_cache
from ipaddress import IPv6Address
from struct import Struct
from typing import Any, Final, Protocol

from kcore.controller.rules.acls import Acl, AclsByResource
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

EIGHT_GROUPS: Final = Struct(">8H")  # Of an IPv6 address.
SOME_RESOURCE: Final = "hardcode"  # That Authorizer.authorizeByResourceType looks at first.
_IMPLY: Final = {  # Which operations a principal may do because it is allowed another one; DENY implies nothing.
    DESCRIBE: frozenset({DESCRIBE, READ, WRITE, DELETE, ALTER}),
    DESCRIBE_CONFIGS: frozenset({DESCRIBE_CONFIGS, ALTER_CONFIGS}),
}


class AuthorizerSettings(Protocol):
    """What an authorizer knows beside the ACLs."""

    @property
    def super_users(self) -> Collection[str]:
        """Principals, such as User:admin."""

    @property
    def allow_everyone_if_no_acl_found(self) -> bool:
        """Whether everybody may do everything with a resource that no entry takes in."""


def is_allowed(
    settings: AuthorizerSettings,
    acls: AclsByResource[Any, Any],
    principal: KafkaPrincipal,
    client_address: str,
    operation: int,
    resource_type: int = CLUSTER,
    name: str = CLUSTER_NAME,
) -> bool:
    """Whether the principal may do the operation on the resource from that address.

    The cost is that of the entries of this resource, not of all entries. Source: StandardAuthorizerData.authorize,
    AclAuthorizer.authorizeAction.
    """
    who = str(principal)
    if who in settings.super_users:
        return True
    host = as_java_says(client_address)
    has_entries = allowed = False
    for acl in acls.of_resource(resource_type, name):
        has_entries = True
        if _matches(acl, who, host, operation):
            if acl.permission_type != ALLOW:
                return False
            allowed = True
    return allowed if has_entries else settings.allow_everyone_if_no_acl_found


def is_allowed_on_any_by_standard(
    settings: AuthorizerSettings,
    acls: AclsByResource[Any, Any],
    principal: KafkaPrincipal,
    client_address: str,
    operation: int,
    resource_type: int,
) -> bool:
    """As `is_allowed_on_any`, but for `allow.everyone.if.no.acl.found`: that counts for a resource of one name alone.

    Source: Authorizer.authorizeByResourceType, which StandardAuthorizer does not replace.
    """
    if is_allowed(settings, acls, principal, client_address, operation, resource_type, SOME_RESOURCE):
        return True
    return _is_allowed_on_any(acls, str(principal), client_address, operation, resource_type, allows_others=False)


def is_allowed_on_any(
    settings: AuthorizerSettings,
    acls: AclsByResource[Any, Any],
    principal: KafkaPrincipal,
    client_address: str,
    operation: int,
    resource_type: int,
) -> bool:
    """Whether there may be a resource of that type on which the principal is allowed the operation.

    Looks at all entries of the type. Nothing implies the operation. Source: AclAuthorizer.authorizeByResourceType.
    """
    who = str(principal)
    if who in settings.super_users:
        return True
    allows_others = settings.allow_everyone_if_no_acl_found
    return _is_allowed_on_any(acls, who, client_address, operation, resource_type, allows_others=allows_others)


def _is_allowed_on_any(
    acls: AclsByResource[Any, Any],
    who: str,
    client_address: str,
    operation: int,
    resource_type: int,
    *,
    allows_others: bool,
) -> bool:
    host = as_java_says(client_address)
    found = [
        each for each in acls.of_type(resource_type) if each.operation in (ALL, operation) and _is_of(each, who, host)
    ]
    denied = [each for each in found if each.permission_type != ALLOW]
    if any(each.pattern_type == LITERAL and each.resource_name == WILDCARD for each in denied):
        return False
    if allows_others:
        return True
    return any(
        (each.pattern_type == LITERAL and each.resource_name == WILDCARD) or not any(_covers(no, each) for no in denied)
        for each in found
        if each.permission_type == ALLOW
    )


def _covers(denied: Acl, allowed: Acl) -> bool:
    """Whether all that the pattern of `allowed` takes in is denied by the other entry."""
    if denied.pattern_type == LITERAL:
        return allowed.pattern_type == LITERAL and allowed.resource_name == denied.resource_name
    return allowed.resource_name.startswith(denied.resource_name)


@lru_cache(maxsize=4096)
def as_java_says(address: str) -> str:
    """An address as ACLs name it: InetAddress.getHostAddress writes all eight groups of IPv6, and IPv4 that is mapped
    into IPv6 as IPv4.
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


def _is_of(acl: Acl, principal: str, host: str) -> bool:
    return acl.principal in (principal, WILDCARD_PRINCIPAL) and acl.host in (host, WILDCARD)


def _matches(acl: Acl, principal: str, host: str, operation: int) -> bool:
    """Whether an entry of the resource covers principal, host and operation (StandardAuthorizerData.findResult)."""
    if not _is_of(acl, principal, host):
        return False
    if acl.operation in (ALL, operation):
        return True
    return acl.permission_type == ALLOW and acl.operation in _IMPLY.get(operation, ())


class Asking(Protocol):
    """Whoever asks."""

    @property
    def principal(self) -> KafkaPrincipal:
        """Who it is."""


def refusal(asking: Asking, operation: int) -> str:
    """The message for a principal without that permission on the cluster (AuthHelper.authorizeClusterOperation)."""
    return f"Principal {asking.principal} needs {OPERATIONS[operation]} permission."
