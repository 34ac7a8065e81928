"""Authorization in KRaft mode: StandardAuthorizer over the ACLs of the image."""

from collections.abc import Callable, Iterable

from kcore.controller.kraft.acl_index import AclIndex
from kcore.controller.kraft.kraft_context import ControllerContext, RequestInfo
from kcore.controller.rules.authorization import AuthorizerSettings, is_allowed, is_allowed_on_any_by_standard
from kcore.metadata.acl_codes import CLUSTER, CLUSTER_NAME
from kcore.metadata.image.image import ClusterImage
from kcore.metadata.principal import KafkaPrincipal


def is_authorized(
    context: ControllerContext,
    info: RequestInfo,
    operation: int,
    resource_type: int = CLUSTER,
    name: str = CLUSTER_NAME,
) -> bool:
    """True if the principal may do the operation on the resource, and always without an authorizer."""
    config = context.config
    if not config.has_authorizer:
        return True
    acls = context.acls.of(context.image)
    return is_allowed(config, acls, info.principal, info.client_address, operation, resource_type, name)


def filter_by_authorized(
    context: ControllerContext, info: RequestInfo, operation: int, resource_type: int, names: Iterable[str]
) -> set[str]:
    """The names of resources for which `is_authorized` is true (AuthHelper.filterByAuthorized)."""
    return {name for name in set(names) if is_authorized(context, info, operation, resource_type, name)}


class ImageAuthorizer:
    """StandardAuthorizer of a broker that follows the metadata log (kcore.server.security.rights.Authorizer)."""

    def __init__(self, settings: AuthorizerSettings, image: Callable[[], ClusterImage]) -> None:
        """`image`: returns the image whose ACLs apply now."""
        self._settings, self._image, self._acls = settings, image, AclIndex()

    def allows(
        self,
        principal: KafkaPrincipal,
        client_address: str,
        operation: int,
        resource_type: int = CLUSTER,
        name: str = CLUSTER_NAME,
    ) -> bool:
        """True if the principal may do the operation on the resource."""
        acls = self._acls.of(self._image())
        return is_allowed(self._settings, acls, principal, client_address, operation, resource_type, name)

    def allows_on_any(self, principal: KafkaPrincipal, client_address: str, operation: int, resource_type: int) -> bool:
        """True if there may be a resource of the type on which the principal may do the operation."""
        acls = self._acls.of(self._image())
        asked = (principal, client_address, operation, resource_type)
        return is_allowed_on_any_by_standard(self._settings, acls, *asked)
