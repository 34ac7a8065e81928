"""The client's side of SASL mechanisms: takes a server's answer, returns the client's next token.

Source: ScramSaslClient, ScramMessages, ScramFormatter of 4.3.1; RFC 4616, RFC 5802. As in Kafka, a salt may have any
length, and names and passwords are plain UTF-8. This module uses no socket and no clock. No error shows a password.
"""

import hmac
import re
from base64 import b64decode, b64encode
from collections.abc import Callable, Generator
from functools import lru_cache
from typing import Final

from kcore.errors import AuthenticationError
from kcore.net.security.client_security import Sasl
from kcore.net.security.sasl_mechanisms import BASE64, EXTENSIONS, MOST_SCRAM_BYTES, NONCE, VALUE, random_nonce
from kcore.scram import DIGESTS, LEAST_ITERATIONS, salted_credential, salted_password
from kcore.scram import MOST_ITERATIONS as FEW_ITERATIONS

MOST_ITERATIONS: Final = 1_000_000  # Limit of the server's number of iterations: a second's work. Kafka has none.
GS2_HEADER: Final = b64encode(b"n,,").decode()  # No channel binding, and no authorization id.
SERVER_FIRST: Final = re.compile(
    rf"r=(?P<nonce>{NONCE}),s=(?P<salt>{BASE64}),i=(?P<iterations>[0-9]{{1,9}}){EXTENSIONS}"
)
SERVER_FINAL: Final = re.compile(rf"(?:e=(?P<error>{VALUE})|v=(?P<signature>{BASE64})){EXTENSIONS}")
# A client with many connections derives its keys once: the salt is the user's, and the same for all connections.
_salted_password = lru_cache(maxsize=4)(salted_password)


class Exchange:
    """One exchange of a client. The caller calls `next_token`, first without an answer, until it returns None.

    Raises AuthenticationError if the server does not prove that it knows the password, or breaks the protocol.
    """

    def __init__(self, sasl: Sasl, new_nonce: Callable[[], str] = random_nonce) -> None:
        self._mechanism = sasl.mechanism
        self._steps = _plain(sasl) if sasl.mechanism == "PLAIN" else _scram(sasl, new_nonce())
        self._begun = False

    def next_token(self, answer: bytes = b"") -> bytes | None:
        """The client's next token after the server's `answer`; None if the exchange is complete."""
        try:
            if self._begun:
                return self._steps.send(answer)
            self._begun = True
            return next(self._steps)
        except StopIteration:
            return None
        except AuthenticationError as error:
            raise AuthenticationError(f"SASL {self._mechanism}: {error}") from None


def is_slow(answer: bytes) -> bool:
    """Whether an answer takes long to process: it is long, or has more iterations than Kafka's own tools store."""
    if len(answer) > MOST_SCRAM_BYTES:
        return True
    parts = SERVER_FIRST.fullmatch(_text(answer))
    return parts is not None and int(parts["iterations"]) > FEW_ITERATIONS


def _plain(sasl: Sasl) -> Generator[bytes, bytes, None]:
    yield f"\0{sasl.username}\0{sasl.password}".encode()


def _scram(sasl: Sasl, nonce: str) -> Generator[bytes, bytes, None]:
    """The steps of SCRAM, with the names of RFC 5802, section 3."""
    mechanism, digest = sasl.mechanism, DIGESTS[sasl.mechanism]
    bare = f"n={sasl.username.replace('=', '=3D').replace(',', '=2C')},r={nonce}"
    first = _text((yield f"n,,{bare}".encode()))
    parts = _parts_of(SERVER_FIRST, first)
    iterations, salt = int(parts["iterations"]), b64decode(parts["salt"])
    if not parts["nonce"].startswith(nonce) or parts["nonce"] == nonce:
        raise AuthenticationError("the server's nonce does not begin with the client's")
    if not LEAST_ITERATIONS <= iterations <= MOST_ITERATIONS:
        raise AuthenticationError(f"{iterations} iterations, not {LEAST_ITERATIONS} to {MOST_ITERATIONS}")
    salted = _salted_password(mechanism, sasl.password.encode(), salt, iterations)
    credential = salted_credential(mechanism, salted, salt, iterations)
    without_proof = f"c={GS2_HEADER},r={parts['nonce']}"
    signed = f"{bare},{first},{without_proof}".encode()
    signature = hmac.digest(credential.stored_key, signed, digest)
    client_key = hmac.digest(salted, b"Client Key", digest)
    proof = bytes(one ^ other for one, other in zip(client_key, signature, strict=True))
    final = _parts_of(SERVER_FINAL, _text((yield f"{without_proof},p={b64encode(proof).decode()}".encode())))
    if final["error"] is not None:
        raise AuthenticationError(f"the server answers {final['error']:.60}")
    if not hmac.compare_digest(b64decode(final["signature"]), hmac.digest(credential.server_key, signed, digest)):
        raise AuthenticationError("the server does not know the password")


def _text(answer: bytes) -> str:
    return answer.decode("utf-8", "replace")


def _parts_of(pattern: re.Pattern[str], message: str) -> re.Match[str]:
    parts = pattern.fullmatch(message)
    if parts is None:
        raise AuthenticationError("the server breaks the protocol of SCRAM")
    return parts
