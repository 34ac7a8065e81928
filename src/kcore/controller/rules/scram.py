"""SCRAM mechanisms and the limits of a credential. Source: ScramMechanism."""

from typing import Final, NamedTuple


class Mechanism(NamedTuple):
    """A ScramMechanism: its name, and hashlib's name of its hash function."""

    name: str
    digest: str


MECHANISMS: Final = {1: Mechanism("SCRAM-SHA-256", "sha256"), 2: Mechanism("SCRAM-SHA-512", "sha512")}
LEAST_ITERATIONS, MOST_ITERATIONS = 4096, 16384
MOST_SALT: Final = 1024  # Bytes of a salt, or of a salted password. Kafka has no bound of its own.
