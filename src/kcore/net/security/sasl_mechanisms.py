"""The server's side of SASL mechanisms: takes a client's token, returns the answer and the authenticated principal.

Source: PlainSaslServer, ScramSaslServer, ScramMessages of 4.3.1; RFC 4616, RFC 5802. This module uses no socket and no
clock. An error never quotes the client's text, which may be a password.
"""

import hashlib
import hmac
import re
import secrets
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

from kcore.errors import AuthenticationError
from kcore.metadata.principal import KafkaPrincipal
from kcore.scram import DIGESTS, LEAST_ITERATIONS, SALT_BYTES, ScramCredential, salt_of, scram_credential

PLAIN: Final = "PLAIN"
# The longest SCRAM message, whose patterns are slow on long texts. Kafka's requests allow no longer user names either.
MOST_SCRAM_BYTES: Final = 32_767
_NONCE_BYTES: Final = 24
_KEY_BYTES: Final = 32  # Length of the random key of UnknownUsers.

_SASL_NAME: Final = r"(?:[\x01-\x2B\x2D-\x3C\x3E-\x7F]|=2C|=3D)+"
VALUE: Final = r"[\x01-\x2B\x2D-\x7F]+"
NONCE: Final = r"[\x21-\x2B\x2D-\x7E]+"
EXTENSIONS: Final = rf"(?:,[A-Za-z]+={VALUE})*"
BASE64: Final = r"(?:[a-zA-Z0-9/+]{4})*(?:[a-zA-Z0-9/+]{3}=|[a-zA-Z0-9/+]{2}==)?"
CLIENT_FIRST: Final = re.compile(
    rf"n,(?:a=(?P<authzid>{_SASL_NAME}))?,"
    rf"(?P<bare>(?:m={VALUE},)?n=(?P<name>{_SASL_NAME}),r=(?P<nonce>{NONCE})(?P<extensions>{EXTENSIONS}))"
)
CLIENT_FINAL: Final = re.compile(
    rf"(?P<without_proof>c={BASE64},r=(?P<nonce>{NONCE}){EXTENSIONS}),p=(?P<proof>{BASE64})"
)


def random_nonce() -> str:
    """A random nonce of SCRAM."""
    return secrets.token_urlsafe(_NONCE_BYTES)


class SaslFailure(AuthenticationError):
    """A client fails to prove its identity, or breaks the protocol. `client_message` is sent to the client, if set."""

    def __init__(self, why: str, *, client_message: str | None = None) -> None:
        super().__init__(why)
        self.client_message = client_message


@dataclass(frozen=True, slots=True)
class Token:
    """A delegation token: its owner, its expiration (ms since 1970), and its HMAC, which is used as its password."""

    owner: KafkaPrincipal
    expiration_ms: int
    hmac: bytes = field(repr=False)


class Credentials(Protocol):
    """The SCRAM users and delegation tokens of a listener."""

    def scram(self, mechanism: str, username: str) -> ScramCredential | None:
        """The stored SCRAM credential of a user for a mechanism, or None."""

    def token(self, token_id: str) -> Token | None:
        """The delegation token of that id, or None."""

    def secret(self) -> bytes | None:
        """A secret that only the cluster's nodes share; None without one."""


class NoCredentials:
    """Credentials without users and tokens, for a listener without SCRAM."""

    def scram(self, mechanism: str, username: str) -> ScramCredential | None:
        """Returns None: there are no users."""
        return None

    def token(self, token_id: str) -> Token | None:
        """Returns None: there are no tokens."""
        return None

    def secret(self) -> bytes | None:
        """Returns None: there is no secret."""
        return None


class UnknownUsers:
    """Generates credentials for unknown users, so that a client cannot tell an unknown user from a wrong password.

    An unknown user gets the same salt each time: on all nodes that share `Credentials.secret`, or, without a secret,
    on one node until the node restarts.
    """

    def __init__(self, new_key: Callable[[int], bytes] = secrets.token_bytes) -> None:
        self._key = new_key(_KEY_BYTES)

    def credential(self, mechanism: str, username: str, secret: bytes | None) -> ScramCredential:
        """A credential as Kafka's tools create it: with the least iterations, and a random number's digits as salt."""
        text = f"unknown {mechanism} {username}".encode("utf-8", "surrogatepass")
        made = hmac.digest(self._key if secret is None else secret, text, "sha512")
        stored = hmac.digest(made, b"stored", DIGESTS[mechanism])
        return ScramCredential(
            salt_of(made), stored, hmac.digest(made, b"server", DIGESTS[mechanism]), LEAST_ITERATIONS
        )


class PlainUsers:
    """Users and passwords of PLAIN; `repr` shows only their number."""

    __slots__ = ("_passwords",)

    def __init__(self, passwords: Mapping[str, str]) -> None:
        self._passwords = {name: password.encode() for name, password in passwords.items()}

    def __len__(self) -> int:
        return len(self._passwords)

    def __repr__(self) -> str:
        return f"PlainUsers({len(self)})"

    def has(self, username: str, password: str) -> bool:
        """Whether `password` is the user's password. The time it takes reveals at most the password's length."""
        expected = self._passwords.get(username)
        is_equal = hmac.compare_digest(expected or b"", password.encode())
        return expected is not None and is_equal


@dataclass(frozen=True, slots=True)
class Authenticated:
    """The result of an exchange: the client's principal, and when its token expires (ms since 1970; None: never)."""

    principal: KafkaPrincipal
    is_token: bool = False
    expires_ms: int | None = None


class Mechanism(Protocol):
    """One exchange of a mechanism with a client."""

    authenticated: Authenticated | None

    def evaluate(self, token: bytes, wall_ms: int) -> bytes:
        """The answer to the client's next token; sets `authenticated` after the last token. Raises SaslFailure."""


class Plain:
    """PLAIN: one token with authorization id, name and password, separated by NULs."""

    def __init__(self, users: PlainUsers) -> None:
        self.authenticated: Authenticated | None = None
        self._users = users

    def evaluate(self, token: bytes, wall_ms: int) -> bytes:
        """See `Mechanism`; the answer is empty."""
        texts = token.decode("utf-8", "replace").split("\0", 3)
        if len(texts) != 3:
            client_message = f"Invalid SASL/PLAIN response: expected 3 tokens, got {len(texts)}"
            raise SaslFailure(f"{len(texts)} texts", client_message=client_message)
        authorization_id, username, password = texts
        if not username:
            raise SaslFailure("no username", client_message="Authentication failed: username not specified")
        if not password:
            raise SaslFailure("no password", client_message="Authentication failed: password not specified")
        if not self._users.has(username, password):
            raise SaslFailure(
                "invalid username or password", client_message="Authentication failed: Invalid username or password"
            )
        _check_authorization_id(authorization_id, username)
        self.authenticated = Authenticated(KafkaPrincipal(username))
        return b""


def _check_authorization_id(requested_id: str | None, username: str) -> None:
    if requested_id and requested_id != username:
        client_message = "Authentication failed: Client requested an authorization id that is different from username"
        raise SaslFailure("another authorization id", client_message=client_message)


class Scram:
    """SCRAM: the client's first and final message. With the extension `tokenauth=true` a token's id is the user."""

    def __init__(
        self,
        mechanism: str,
        credentials: Credentials,
        tokens: "TokenCredentials",
        new_nonce: Callable[[], str],
        unknown: UnknownUsers,
    ) -> None:
        self.authenticated: Authenticated | None = None
        self._mechanism, self._digest = mechanism, DIGESTS[mechanism]
        self._credentials, self._tokens, self._new_nonce = credentials, tokens, new_nonce
        self._unknown = unknown
        self._why_refused = ""  # If set, the exchange fails with this reason, even with a valid proof.
        self._found: tuple[Authenticated, ScramCredential] | None = None  # Set after the client's first message.
        self._messages = self._nonce = ""  # The first messages of client and server, which the proof covers.

    def evaluate(self, token: bytes, wall_ms: int) -> bytes:
        """See `Mechanism`."""
        if len(token) > MOST_SCRAM_BYTES:  # The patterns take milliseconds for each further 16 KiB.
            raise SaslFailure(f"a SCRAM message of more than {MOST_SCRAM_BYTES:,} bytes")
        message = token.decode("utf-8", "replace")
        if self._found is None:
            return self._first(message, wall_ms)
        found, self._found = self._found, None
        return self._final(message, *found)

    def _first(self, message: str, wall_ms: int) -> bytes:
        parts = CLIENT_FIRST.fullmatch(message)
        if parts is None:
            raise SaslFailure("invalid SCRAM client first message")
        username = _unescaped(parts["name"])
        extensions = dict(each.split("=", 1) for each in parts["extensions"].split(",") if each)
        if extensions.get("tokenauth", "").lower() == "true":
            found = self._of_token(username, wall_ms)
        else:
            found = Authenticated(KafkaPrincipal(username)), self._of_user(username)
        who, credential = found
        _check_authorization_id(parts["authzid"], username)
        self._nonce = parts["nonce"] + self._new_nonce()
        first = f"r={self._nonce},s={b64encode(credential.salt).decode()},i={credential.iterations}"
        self._messages = f"{parts['bare']},{first}"
        self._found = who, credential
        return first.encode()

    def _of_user(self, username: str) -> ScramCredential:
        """The user's credential. A user who cannot authenticate gets a generated one, which takes as long."""
        found = self._credentials.scram(self._mechanism, username)
        instead = self._unknown.credential(self._mechanism, username, self._credentials.secret())
        if found is None:
            self._why_refused = "invalid user credentials"
        elif found.iterations < LEAST_ITERATIONS:
            self._why_refused = f"{found.iterations} iterations are less than {LEAST_ITERATIONS}"
        else:
            return found
        return instead

    def _of_token(self, token_id: str, wall_ms: int) -> tuple[Authenticated, ScramCredential]:
        token = self._credentials.token(token_id)
        if token is None or token.expiration_ms < wall_ms:
            raise SaslFailure("invalid token")
        who = Authenticated(token.owner, is_token=True, expires_ms=token.expiration_ms)
        return who, self._tokens.credential(self._mechanism, token)

    def _final(self, message: str, who: Authenticated, credential: ScramCredential) -> bytes:
        parts = CLIENT_FINAL.fullmatch(message)
        if parts is None:
            raise SaslFailure("invalid SCRAM client final message")
        if not hmac.compare_digest(parts["nonce"], self._nonce):
            raise SaslFailure("invalid nonce in the client final message")
        signed = f"{self._messages},{parts['without_proof']}".encode()
        signature, proof = hmac.digest(credential.stored_key, signed, self._digest), b64decode(parts["proof"])
        if len(proof) != len(signature):
            raise SaslFailure("invalid client credentials")
        client_key = bytes(one ^ other for one, other in zip(signature, proof, strict=True))
        is_equal = hmac.compare_digest(hashlib.new(self._digest, client_key).digest(), credential.stored_key)
        if self._why_refused or not is_equal:
            raise SaslFailure(self._why_refused or "invalid client credentials")
        self.authenticated = who
        return b"v=" + b64encode(hmac.digest(credential.server_key, signed, self._digest))


def _unescaped(sasl_name: str) -> str:
    """A user name with `=2C` and `=3D` replaced by `,` and `=` (ScramFormatter.username)."""
    return sasl_name.replace("=2C", ",").replace("=3D", "=")


class TokenCredentials:
    """Credentials of delegation tokens, each computed at the token's first use (DelegationTokenCache)."""

    MOST: Final = 1_000  # Cached credentials; beyond that, the oldest is dropped.

    def __init__(self, new_salt: Callable[[int], bytes]) -> None:
        """`new_salt(n)` returns n random bytes."""
        self._new_salt = new_salt
        self._made: dict[tuple[str, bytes], ScramCredential] = {}

    def credential(self, mechanism: str, token: Token) -> ScramCredential:
        """The SCRAM credential of a token, whose password is its HMAC in Base64."""
        key = mechanism, token.hmac
        if (found := self._made.get(key)) is None:
            found = scram_credential(mechanism, b64encode(token.hmac), self._new_salt(SALT_BYTES), LEAST_ITERATIONS)
            if len(self._made) >= self.MOST:
                del self._made[next(iter(self._made))]
            self._made[key] = found
        return found
