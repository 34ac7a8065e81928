"""The ACLs of an image by resource, so that a request reads only the ACLs of its resource.

Source: AclCache and StandardAuthorizerData. `AclIndex.of` applies the changes of the image since the last call, so its
cost grows with these changes.
"""

from collections.abc import Callable

from kcore.controller.rules.acls import AclKey, AclsByResource, key_of
from kcore.controller.rules.authorization import Authorizer, AuthorizerSettings
from kcore.metadata.image.image import ClusterImage
from kcore.schema.metadata_records_security import AccessControlEntryRecord
from kcore.types import Uuid

Acl = AccessControlEntryRecord


class AclIndex(AclsByResource[Uuid, Acl]):
    """An index of one image at a time; it is built again for another image."""

    def __init__(self) -> None:
        super().__init__()
        self._image: ClusterImage | None = None
        self._count = 0  # The number of changes of the image that the index has applied.
        self._known: dict[Uuid, Acl] = {}
        self._ids: dict[AclKey, Uuid] = {}

    def of(self, image: ClusterImage) -> "AclIndex":
        """The index of the image's present state."""
        recent = image.changed_keys("acls")
        if self._image is not image or self._count != recent.count:
            changed = recent.since(self._count) if self._image is image else None
            if changed is None:
                self.clear()
                self._known, self._ids = {}, {}
                changed = set(image.acls)
            for acl_id in changed:
                self._refresh(image, acl_id)
            self._image, self._count = image, recent.count
        return self

    def _refresh(self, image: ClusterImage, acl_id: Uuid) -> None:
        if (old := self._known.pop(acl_id, None)) is not None:
            self.remove(acl_id, old)
            self._ids.pop(key_of(old), None)
        if (new := image.acls.get(acl_id)) is not None:
            self._known[acl_id] = new
            self._ids[key_of(new)] = acl_id
            self.add(acl_id, new)

    def __contains__(self, key: AclKey) -> bool:
        """True if there is an ACL with all of these values."""
        return key in self._ids


class ImageAuthorizer(Authorizer):
    """Decides by the ACLs of an image."""

    def __init__(self, settings: AuthorizerSettings, image: Callable[[], ClusterImage]) -> None:
        """`image`: returns the image whose ACLs apply now."""
        self.index = AclIndex()
        super().__init__(settings, lambda: self.index.of(image()), is_standard=True)
