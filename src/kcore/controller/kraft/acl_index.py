"""The ACLs of an image by resource, so that a request looks at the ACLs of its resource alone.

Source: AclCache and StandardAuthorizerData. The index catches up with the image when it is asked, at the cost of what
has changed since.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

from kcore.metadata.image import ClusterImage
from kcore.schema.metadata_records_security import AccessControlEntryRecord
from kcore.types import Uuid

LITERAL: Final = 3
PREFIXED: Final = 4
WILDCARD: Final = "*"  # As the name of a literal pattern, as a principal's name and as a host: any.

Acl = AccessControlEntryRecord
Resource = tuple[int, int, str]  # Type, pattern type and name.
AclKey = tuple[int, int, str, str, str, int, int]  # The resource, principal, host, operation and permission type.


class AclIndex:
    """An index of one image at a time; for another image it is built anew."""

    def __init__(self) -> None:
        self._image: ClusterImage | None = None
        self._count = 0  # How many changes of the image the index has taken in.
        self._known: dict[Uuid, Acl] = {}
        self._by_resource: dict[Resource, dict[Uuid, Acl]] = {}
        self._prefix_lengths: dict[int, Counter[int]] = {}  # By resource type: how many ACLs have a name so long.
        self._ids: dict[AclKey, Uuid] = {}

    def of(self, image: ClusterImage) -> "AclIndex":
        """The index as of the image's present state."""
        recent = image.changed_keys("acls")
        if self._image is not image or self._count != recent.count:
            changed = recent.since(self._count) if self._image is image else None
            if changed is None:
                self._known, self._by_resource, self._prefix_lengths, self._ids = {}, {}, {}, {}
                changed = set(image.acls)
            for acl_id in changed:
                self._refresh(image, acl_id)
            self._image, self._count = image, recent.count
        return self

    def _refresh(self, image: ClusterImage, acl_id: Uuid) -> None:
        if (old := self._known.pop(acl_id, None)) is not None:
            resource = _resource(old)
            entries = self._by_resource[resource]
            del entries[acl_id]
            self._ids.pop(key_of(old), None)
            if not entries:
                del self._by_resource[resource]
            if old.pattern_type == PREFIXED:
                lengths = self._prefix_lengths[old.resource_type]
                lengths[len(old.resource_name)] -= 1
                if not lengths[len(old.resource_name)]:
                    del lengths[len(old.resource_name)]
        if (new := image.acls.get(acl_id)) is not None:
            self._known[acl_id] = new
            self._ids[key_of(new)] = acl_id
            self._by_resource.setdefault(_resource(new), {})[acl_id] = new
            if new.pattern_type == PREFIXED:
                self._prefix_lengths.setdefault(new.resource_type, Counter())[len(new.resource_name)] += 1

    def __contains__(self, key: AclKey) -> bool:
        """Whether there is an ACL with all of these values."""
        return key in self._ids

    def of_pattern(self, resource: Resource) -> Iterable[Acl]:
        """The ACLs of one pattern."""
        return self._by_resource.get(resource, {}).values()

    def of_resource(self, resource_type: int, name: str) -> Iterator[Acl]:
        """The ACLs whose pattern takes in the resource: its name, the wildcard, or a prefix."""
        yield from self.of_pattern((resource_type, LITERAL, name))
        if name != WILDCARD:
            yield from self.of_pattern((resource_type, LITERAL, WILDCARD))
        for length in self._prefix_lengths.get(resource_type, ()):
            if length <= len(name):
                yield from self.of_pattern((resource_type, PREFIXED, name[:length]))


def _resource(acl: Acl) -> Resource:
    return acl.resource_type, acl.pattern_type, acl.resource_name


def key_of(acl: Acl) -> AclKey:
    """All values of an ACL except its id (StandardAcl)."""
    return (*_resource(acl), acl.principal, acl.host, acl.operation, acl.permission_type)
