"""Authorization in KRaft mode: StandardAuthorizer over the ACLs of the image."""

from collections.abc import Iterable

from kcore.controller.kraft.kraft_context import ControllerContext, RequestInfo
from kcore.metadata.acl_codes import CLUSTER, CLUSTER_NAME


def is_authorized(
    context: ControllerContext,
    info: RequestInfo,
    operation: int,
    resource_type: int = CLUSTER,
    name: str = CLUSTER_NAME,
) -> bool:
    """True if the principal may do the operation on the resource, and always without an authorizer."""
    if not context.config.has_authorizer:
        return True
    return context.authorizer.allows(info.principal, info.client_address, operation, resource_type, name)


def filter_by_authorized(
    context: ControllerContext, info: RequestInfo, operation: int, resource_type: int, names: Iterable[str]
) -> set[str]:
    """The names of resources for which `is_authorized` is true (AuthHelper.filterByAuthorized)."""
    return {name for name in set(names) if is_authorized(context, info, operation, resource_type, name)}
