"""The users and the delegation tokens of the metadata log, for who comes to a listener with SCRAM.

Source: ScramPublisher, DelegationTokenPublisher, ScramServerCallbackHandler of 4.3.1.
"""

from collections.abc import Callable
from typing import Final

from kcore.controller.kraft.context import ControllerContext
from kcore.controller.rules.scram import MECHANISMS
from kcore.metadata.principal import KafkaPrincipal
from kcore.net.sasl_mechanisms import ScramCredential, Token

_CODES: Final = {mechanism.name: code for code, mechanism in MECHANISMS.items()}


class LogCredentials:
    """Those of the controller's state at the moment of the question (kcore.net.sasl_mechanisms.Credentials)."""

    def __init__(self, context: Callable[[], ControllerContext]) -> None:
        self._context = context

    def scram(self, mechanism: str, username: str) -> ScramCredential | None:
        """The user's credential for a mechanism."""
        record = self._context().image.scram.get((_CODES[mechanism], username))
        if record is None:
            return None
        return ScramCredential(record.salt, record.stored_key, record.server_key, record.iterations)

    def token(self, token_id: str) -> Token | None:
        """The token; none where this node has no `delegation.token.secret.key`."""
        context = self._context()
        record = context.image.tokens.get(token_id)
        if record is None or context.config.delegation_token_secret_key is None:
            return None
        kind, _, name = record.owner.partition(":")
        return Token(KafkaPrincipal(name, kind), record.expiration_timestamp, context.tokens.hmac_of(token_id))
