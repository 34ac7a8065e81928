"""Indexes of an image: its ACLs by resource, and its delegation tokens by HMAC, which is a token's secret.

Each change of the image's ACLs updates their index. A query of tokens first applies the changes since the last query,
so its cost grows with these changes. Tokens and their key are never logged. Source: AclCache, StandardAuthorizerData,
DelegationTokenCache, DelegationTokenControlManager.createHmac.
"""

from collections import Counter
from collections.abc import Callable

from kcore.metadata.image.image import ClusterImage
from kcore.metadata.image.image_state import KeyChanges
from kcore.node.acls import AclKey, AclsByResource, key_of
from kcore.node.authorization import Authorizer
from kcore.node.kraft.node_config import NodeConfig
from kcore.node.tokens import secret_of
from kcore.schema.metadata_records_security import AccessControlEntryRecord, DelegationTokenRecord
from kcore.types import Uuid

Acl = AccessControlEntryRecord


class AclIndex(AclsByResource[Uuid, Acl]):
    """The ACLs of an image by resource (a `KeyIndex`)."""

    def __init__(self) -> None:
        super().__init__()
        self._known: dict[Uuid, Acl] = {}
        self._ids: dict[AclKey, Uuid] = {}

    @staticmethod
    def of(image: ClusterImage) -> "AclIndex":
        """The index of the image, which follows its changes."""
        return image.index("acls", AclIndex)

    def on_change(self, key: Uuid, value: Acl | None) -> None:
        """Update the entry of one ACL."""
        if (old := self._known.pop(key, None)) is not None:
            self.remove(key, old)
            self._ids.pop(key_of(old), None)
        if value is not None:
            self._known[key] = value
            self._ids[key_of(value)] = key
            self.add(key, value)

    def __contains__(self, key: AclKey) -> bool:
        """True if there is an ACL with all of these values."""
        return key in self._ids


class ImageAuthorizer(Authorizer):
    """Decides by the ACLs of an image."""

    def __init__(self, config: NodeConfig, image: Callable[[], ClusterImage]) -> None:
        """`image`: returns the image whose ACLs apply now."""
        super().__init__(
            config,
            lambda: AclIndex.of(image()),
            is_standard=True,
            matches_blocks=config.rules.checks_acl_hosts,
        )


class TokenIndex:
    """The tokens of an image by HMAC. If a method is called with another image, it builds the index again."""

    def __init__(self, secret_key: str | None) -> None:
        """`secret_key`: `delegation.token.secret.key`; None if the cluster has no tokens."""
        self._secret_key = None if secret_key is None else secret_key.encode()
        self._changes = KeyChanges("tokens")
        self._ids: dict[bytes, str] = {}  # Token ids by HMAC.
        self._owners: dict[str, str] = {}  # Owners by token id.
        self._of_owner: Counter[str] = Counter()

    def hmac_of(self, token_id: str) -> bytes:
        """The HMAC of a token id, which is the token's secret."""
        assert self._secret_key is not None  # Without a key no token exists.
        return secret_of(self._secret_key, token_id)

    def token_of(self, image: ClusterImage, secret: bytes) -> DelegationTokenRecord | None:
        """The token with this HMAC, in the image's present state."""
        self._catch_up(image)
        token_id = self._ids.get(secret)
        return None if token_id is None else image.tokens.get(token_id)

    def count_of(self, image: ClusterImage, owner: str) -> int:
        """The number of tokens that the principal owns."""
        self._catch_up(image)
        return self._of_owner[owner]

    def _catch_up(self, image: ClusterImage) -> None:
        changed, is_other = self._changes.since_last(image)
        if is_other:
            self._ids, self._owners = {}, {}
            self._of_owner.clear()
        for token_id in changed:
            self._refresh(image, token_id)

    def _refresh(self, image: ClusterImage, token_id: str) -> None:
        if (owner := self._owners.pop(token_id, None)) is not None:
            self._of_owner[owner] -= 1
            if not self._of_owner[owner]:
                del self._of_owner[owner]
        token = image.tokens.get(token_id)
        if token is None:
            self._ids.pop(self.hmac_of(token_id), None)
            return
        self._ids[self.hmac_of(token_id)] = token_id
        self._owners[token_id] = token.owner
        self._of_owner[token.owner] += 1
