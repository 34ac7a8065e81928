"""SCRAM: mechanisms, the derivation of keys, the limits, and the checks of users and credentials (RFC 5802).

The controllers of both modes, `format --add-scram` and the servers' SASL exchanges use these rules, and no others.
`net/security/sasl_mechanisms.py` checks the proof of a client that logs in.

Source: ScramMechanism, ScramFormatter, ScramControlManager of 4.3.1, the AdminManager of 3.9.1.
"""

import hashlib
import hmac
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from kcore.protocol_errors import Errors


class Mechanism(NamedTuple):
    """A ScramMechanism: its name, and hashlib's name of its hash function."""

    name: str
    digest: str


class Flaw(NamedTuple):
    """The reason why a user or a credential is refused: Kafka's error code and its message."""

    error: Errors
    message: str


MECHANISMS: Final = {1: Mechanism("SCRAM-SHA-256", "sha256"), 2: Mechanism("SCRAM-SHA-512", "sha512")}
DIGESTS: Final = dict(MECHANISMS.values())  # By the mechanism's name.
LEAST_ITERATIONS, MOST_ITERATIONS = 4096, 16384
SALT_BYTES: Final = 16  # The size of random salts.
_SALT_NUMBER_BYTES: Final = 17
_BASE_36: Final = "0123456789abcdefghijklmnopqrstuvwxyz"
MOST_SALT: Final = 1024  # Bytes of a salt or of a salted password. Kafka has no limit.


@dataclass(frozen=True, slots=True)
class ScramCredential:
    """The keys of a user that a server stores in place of the password."""

    salt: bytes = field(repr=False)
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)
    iterations: int


def user_flaw(name: str, mechanism: int) -> Flaw | None:
    """The reason why no user may have this name and mechanism; None if both are valid."""
    if not name:
        return Flaw(Errors.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
    if mechanism not in MECHANISMS:
        return Flaw(Errors.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
    return None


def credential_flaw(salt: bytes, salted_password: bytes, iterations: int) -> Flaw | None:
    """The reason why these values make no valid credential; None if they are valid."""
    message = None
    if iterations < LEAST_ITERATIONS:
        message = "Too few iterations"
    elif iterations > MOST_ITERATIONS:
        message = "Too many iterations"
    elif not salted_password:  # Kafka answers -1, because Java's SecretKeySpec takes no empty key.
        message = "Salted password must not be empty"
    elif max(len(salt), len(salted_password)) > MOST_SALT:
        message = f"A salt or salted password must not have more than {MOST_SALT} bytes"
    return None if message is None else Flaw(Errors.UNACCEPTABLE_CREDENTIAL, message)


def keys_of(mechanism: str, salted_password: bytes) -> tuple[bytes, bytes]:
    """The StoredKey and the ServerKey of RFC 5802, which a server stores. `mechanism`: its name."""
    digest = DIGESTS[mechanism]
    client_key = hmac.digest(salted_password, b"Client Key", digest)
    return hashlib.new(digest, client_key).digest(), hmac.digest(salted_password, b"Server Key", digest)


def scram_credential(mechanism: str, password: bytes, salt: bytes, iterations: int) -> ScramCredential:
    """The credential for a password (RFC 5802). The derivation takes milliseconds."""
    return salted_credential(mechanism, salted_password(mechanism, password, salt, iterations), salt, iterations)


def salted_password(mechanism: str, password: bytes, salt: bytes, iterations: int) -> bytes:
    """The password after Hi() of RFC 5802: PBKDF2 with the mechanism's hash function."""
    return hashlib.pbkdf2_hmac(DIGESTS[mechanism], password, salt, iterations)


def salted_credential(mechanism: str, salted: bytes, salt: bytes, iterations: int) -> ScramCredential:
    """The credential for a salted password, the result of `salted_password`."""
    return ScramCredential(salt, *keys_of(mechanism, salted), iterations)


def salt_of(random_bytes: bytes) -> bytes:
    """A salt of 130 random bits, written in base 36 (ScramFormatter.secureRandomString)."""
    number, digits = int.from_bytes(random_bytes[:_SALT_NUMBER_BYTES]) >> 6, ""
    while number:
        number, digit = divmod(number, 36)
        digits = _BASE_36[digit] + digits
    return digits.encode()


def is_stored_credential(mechanism: str, stored_key: bytes, server_key: bytes, iterations: int) -> bool:
    """True if a client can authenticate with the stored credential.

    More than MOST_ITERATIONS are accepted: old tools of Kafka stored such credentials, and servers use them.
    """
    size = hashlib.new(DIGESTS[mechanism]).digest_size
    return len(stored_key) == len(server_key) == size and iterations >= LEAST_ITERATIONS
