"""The users and the delegation tokens of the metadata log, for clients that authenticate by SCRAM.

Source: ScramPublisher, DelegationTokenPublisher, ScramServerCallbackHandler of 4.3.1.
"""

from collections.abc import Callable
from typing import Final

from kcore.errors import DisconnectedError
from kcore.metadata.image.image import ClusterImage
from kcore.metadata.principal import KafkaPrincipal
from kcore.net.security.sasl_mechanisms import Token
from kcore.node.tokens import secret_of
from kcore.scram import MECHANISMS, ScramCredential, is_stored_credential

NOT_LOADED: Final = "this node has not caught up with the metadata log yet"
_CODES: Final = {mechanism.name: code for code, mechanism in MECHANISMS.items()}


class LogCredentials:
    """Looks credentials up in the current image; implements `Credentials` of `sasl_mechanisms.py`.

    A client that is refused as unknown does not retry. So while the image lacks committed records, the connection of an
    unknown client is closed without an answer: DisconnectedError.
    """

    def __init__(
        self, image: Callable[[], ClusterImage], secret_key: str | None, has_loaded: Callable[[], bool]
    ) -> None:
        """`secret_key`: this node's `delegation.token.secret.key`; None: no token is valid.

        `has_loaded`: whether the image has had all committed records once.
        """
        self._image, self._secret_key = image, None if secret_key is None else secret_key.encode()
        self._has_loaded = has_loaded

    def scram(self, mechanism: str, username: str) -> ScramCredential | None:
        """The user's credential for a mechanism."""
        record = self._image().scram.get((_CODES[mechanism], username))
        if record is None:
            self._refuse_early()
            return None
        if not is_stored_credential(mechanism, record.stored_key, record.server_key, record.iterations):
            return None
        return ScramCredential(record.salt, record.stored_key, record.server_key, record.iterations)

    def secret(self) -> bytes | None:
        """A secret that all nodes derive from `delegation.token.secret.key`; None without this setting."""
        return None if self._secret_key is None else secret_of(self._secret_key, "unknown users")

    def token(self, token_id: str) -> Token | None:
        """The token; None if it is unknown, or if this node has no `delegation.token.secret.key`."""
        if self._secret_key is None:
            return None
        record = self._image().tokens.get(token_id)
        if record is None:
            self._refuse_early()
            return None
        secret = secret_of(self._secret_key, token_id)
        return Token(KafkaPrincipal.of(record.owner), record.expiration_timestamp, secret)

    def _refuse_early(self) -> None:
        if not self._has_loaded():
            raise DisconnectedError(NOT_LOADED)
