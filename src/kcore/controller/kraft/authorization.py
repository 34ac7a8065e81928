"""Whether a principal may do what it asks for: StandardAuthorizer over the image's ACLs.

A super user may do everything. Otherwise a DENY entry that matches wins over every ALLOW entry. Where a resource has no
entry at all, `allow.everyone.if.no.acl.found` decides. Operations and resource types are AclOperation's and
ResourceType's codes.
"""

from collections.abc import Iterable
from functools import lru_cache
from ipaddress import IPv6Address
from struct import Struct
from typing import Final

from kcore.controller.kraft.acl_index import WILDCARD, Acl
from kcore.controller.kraft.context import ControllerContext, RequestInfo

READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE, CLUSTER_ACTION, DESCRIBE_CONFIGS, ALTER_CONFIGS = range(3, 12)
ALL: Final = 2
OPERATION_NAMES: Final = {
    **{READ: "READ", WRITE: "WRITE", CREATE: "CREATE", DELETE: "DELETE", ALTER: "ALTER", DESCRIBE: "DESCRIBE"},
    **{CLUSTER_ACTION: "CLUSTER_ACTION", DESCRIBE_CONFIGS: "DESCRIBE_CONFIGS", ALTER_CONFIGS: "ALTER_CONFIGS"},
}
IDEMPOTENT_WRITE, CREATE_TOKENS, DESCRIBE_TOKENS = range(12, 15)
TOPIC, GROUP, CLUSTER, TRANSACTIONAL_ID, DELEGATION_TOKEN, USER = range(2, 8)
CLUSTER_NAME: Final = "kafka-cluster"
ALLOW: Final = 3
WILDCARD_PRINCIPAL: Final = "User:*"
EIGHT_GROUPS: Final = Struct(">8H")  # Of an IPv6 address.
_IMPLY: Final = {  # Which operations a principal may do because it is allowed another one; DENY implies nothing.
    DESCRIBE: frozenset({DESCRIBE, READ, WRITE, DELETE, ALTER}),
    DESCRIBE_CONFIGS: frozenset({DESCRIBE_CONFIGS, ALTER_CONFIGS}),
}


def is_authorized(
    context: ControllerContext,
    info: RequestInfo,
    operation: int,
    resource_type: int = CLUSTER,
    name: str = CLUSTER_NAME,
) -> bool:
    """Whether the principal may do the operation on the resource. Without an authorizer everybody may do everything.

    The cost is that of the entries of this resource, not of all entries. Source: StandardAuthorizerData.authorize.
    """
    config = context.config
    if not config.has_authorizer:
        return True
    principal = str(info.principal)
    if principal in config.super_users:
        return True
    host = as_java_says(info.client_address)
    has_entries = is_allowed = False
    for acl in context.acls.of(context.image).of_resource(resource_type, name):
        has_entries = True
        if _matches(acl, principal, host, operation):
            if acl.permission_type != ALLOW:
                return False
            is_allowed = True
    return is_allowed if has_entries else config.allow_everyone_if_no_acl_found


def filter_by_authorized(
    context: ControllerContext, info: RequestInfo, operation: int, resource_type: int, names: Iterable[str]
) -> set[str]:
    """The names for which `is_authorized` is true (AuthHelper.filterByAuthorized)."""
    return {name for name in set(names) if is_authorized(context, info, operation, resource_type, name)}


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


def refusal(info: RequestInfo, operation: int) -> str:
    """The message for a principal without that permission on the cluster (AuthHelper.authorizeClusterOperation)."""
    return f"Principal {info.principal} needs {OPERATION_NAMES[operation]} permission."


def _matches(acl: Acl, principal: str, host: str, operation: int) -> bool:
    """Whether an entry of the resource covers principal, host and operation (StandardAuthorizerData.findResult)."""
    if acl.principal not in (principal, WILDCARD_PRINCIPAL) or acl.host not in (host, WILDCARD):
        return False
    if acl.operation in (ALL, operation):
        return True
    return acl.permission_type == ALLOW and acl.operation in _IMPLY.get(operation, ())
