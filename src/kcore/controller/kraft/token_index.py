"""The delegation tokens of an image by HMAC, which is the secret that a client shows.

Source: DelegationTokenCache, DelegationTokenControlManager.createHmac. Each query applies the changes of the image
since the last one, so its cost grows with these changes. Neither the index nor the key is ever logged.
"""

from collections import Counter

from kcore.controller.rules.tokens import secret_of
from kcore.metadata.image.image import ClusterImage
from kcore.schema.metadata_records_security import DelegationTokenRecord


class TokenIndex:
    """An index of one image at a time; it is built again for another image."""

    def __init__(self, secret_key: str | None) -> None:
        """`secret_key`: `delegation.token.secret.key`; None if the cluster has no tokens."""
        self._secret_key = None if secret_key is None else secret_key.encode()
        self._image: ClusterImage | None = None
        self._count = 0  # The number of changes of the image that the index has applied.
        self._ids: dict[bytes, str] = {}  # By HMAC; tokens may have been removed since.
        self._owners: dict[str, str] = {}  # By token id.
        self._of_owner: Counter[str] = Counter()

    def hmac_of(self, token_id: str) -> bytes:
        """The token's secret."""
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
        recent = image.changed_keys("tokens")
        if self._image is not image or self._count != recent.count:
            changed = recent.since(self._count) if self._image is image else None
            if changed is None:
                self._ids, self._owners, changed = {}, {}, set(image.tokens)
                self._of_owner.clear()
            for token_id in changed:
                self._refresh(image, token_id)
            self._image, self._count = image, recent.count

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
