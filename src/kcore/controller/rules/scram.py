"""SCRAM mechanisms, and which users and credentials there may be: one rule for all ways in.

These are AlterUserScramCredentials in both modes, `format --add-scram`, and what is stored already. Source:
ScramMechanism, ScramControlManager of 4.3.1, the AdminManager of 3.9.1.
"""

import hashlib
import hmac
from typing import Final, NamedTuple

from kcore.protocol_errors import Errors


class Mechanism(NamedTuple):
    """A ScramMechanism: its name, and hashlib's name of its hash function."""

    name: str
    digest: str


class Flaw(NamedTuple):
    """Why a user or a credential is refused."""

    error: Errors
    message: str


MECHANISMS: Final = {1: Mechanism("SCRAM-SHA-256", "sha256"), 2: Mechanism("SCRAM-SHA-512", "sha512")}
DIGESTS: Final = dict(MECHANISMS.values())  # By the mechanism's name.
LEAST_ITERATIONS, MOST_ITERATIONS = 4096, 16384
MOST_SALT: Final = 1024  # Bytes of a salt, or of a salted password. Kafka has no bound of its own.


def user_flaw(name: str, mechanism: int) -> Flaw | None:
    """Why there is no such user of that mechanism; None if there may be one."""
    if not name:
        return Flaw(Errors.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
    if mechanism not in MECHANISMS:
        return Flaw(Errors.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
    return None


def credential_flaw(salt: bytes, salted_password: bytes, iterations: int) -> Flaw | None:
    """Why a credential cannot be made of these; None if it can."""
    message = None
    if iterations < LEAST_ITERATIONS:
        message = "Too few iterations"
    elif iterations > MOST_ITERATIONS:
        message = "Too many iterations"
    elif not salted_password:  # Kafka answers -1: Java's SecretKeySpec takes no empty key.
        message = "Salted password must not be empty"
    elif max(len(salt), len(salted_password)) > MOST_SALT:
        message = f"A salt or salted password must not have more than {MOST_SALT} bytes"
    return None if message is None else Flaw(Errors.UNACCEPTABLE_CREDENTIAL, message)


def keys_of(mechanism: str, salted_password: bytes) -> tuple[bytes, bytes]:
    """StoredKey and ServerKey of RFC 5802, which a server stores; by the mechanism's name."""
    digest = DIGESTS[mechanism]
    client_key = hmac.digest(salted_password, b"Client Key", digest)
    return hashlib.new(digest, client_key).digest(), hmac.digest(salted_password, b"Server Key", digest)


def is_stored_credential(mechanism: str, stored_key: bytes, server_key: bytes, iterations: int) -> bool:
    """Whether what is stored lets a client authenticate.

    Old tools of Kafka wrote more than MOST_ITERATIONS, and servers take them.
    """
    size = hashlib.new(DIGESTS[mechanism]).digest_size
    return len(stored_key) == len(server_key) == size and iterations >= LEAST_ITERATIONS
