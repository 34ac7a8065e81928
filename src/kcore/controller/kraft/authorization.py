"""Whether a principal may do what it asks for: StandardAuthorizer over the image's ACLs."""

from collections.abc import Iterable

from kcore.controller.kraft.context import ControllerContext, RequestInfo
from kcore.controller.rules.authorization import is_allowed
from kcore.metadata.acl_codes import CLUSTER, CLUSTER_NAME, OPERATIONS


def is_authorized(
    context: ControllerContext,
    info: RequestInfo,
    operation: int,
    resource_type: int = CLUSTER,
    name: str = CLUSTER_NAME,
) -> bool:
    """Whether the principal may do the operation on the resource. Without an authorizer everybody may do everything."""
    config = context.config
    if not config.has_authorizer:
        return True
    acls = context.acls.of(context.image)
    return is_allowed(config, acls, info.principal, info.client_address, operation, resource_type, name)


def filter_by_authorized(
    context: ControllerContext, info: RequestInfo, operation: int, resource_type: int, names: Iterable[str]
) -> set[str]:
    """The names for which `is_authorized` is true (AuthHelper.filterByAuthorized)."""
    return {name for name in set(names) if is_authorized(context, info, operation, resource_type, name)}


def refusal(info: RequestInfo, operation: int) -> str:
    """The message for a principal without that permission on the cluster (AuthHelper.authorizeClusterOperation)."""
    return f"Principal {info.principal} needs {OPERATIONS[operation]} permission."
