"""The option --add-scram: SCRAM credentials of a new cluster, as in `kafka-storage.sh format` (KIP-900).

Source: ScramParser of 4.3.1. No error of this module shows a password.
"""

import secrets
from base64 import b64decode
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from kcore.cli.console import fail
from kcore.errors import StorageError
from kcore.metadata.metadata_version import MetadataVersion
from kcore.schema.metadata_records_security import UserScramCredentialRecord
from kcore.scram import (
    LEAST_ITERATIONS,
    MECHANISMS,
    MOST_ITERATIONS,
    SALT_BYTES,
    credential_flaw,
    salt_of,
    salted_credential,
    salted_password,
    user_flaw,
)
from kcore.storage.files import read_text

SALTED: Final = b"salted"  # Stands for the salted password in checks that precede its derivation.
FORM: Final = "MECHANISM=[name=NAME,password=PASSWORD]"
_MOST_BYTES: Final = 1 << 16  # The largest file that is read.
_CODES: Final = {mechanism.name: code for code, mechanism in MECHANISMS.items()}
_NAMES: Final = ("name", "salt", "iterations", "password", "saltedpassword")


def scram_records(given: Sequence[str], version: MetadataVersion) -> list[UserScramCredentialRecord]:
    """Makes a record of each credential; ends the command for an invalid credential."""
    if given and not version.scram_supported:
        fail("--add-scram: SCRAM is only supported in metadata.version 3.5-IV2 or later")
    return [_record(_text_of(each).strip()) for each in given]


def _text_of(given: str) -> str:
    """The option's value; that of @FILE is the file's text, as in Kafka's tool."""
    if not given.startswith("@"):
        return given
    try:
        return read_text(Path(given[1:]), _MOST_BYTES)
    except (OSError, StorageError) as error:
        fail(f"--add-scram {given}: {error}")


def _record(text: str) -> UserScramCredentialRecord:
    mechanism, _, rest = text.partition("=")
    if mechanism not in _CODES or not (rest.startswith("[") and rest.endswith("]")):
        fail(f"--add-scram: give {FORM}, where MECHANISM is {' or '.join(_CODES)}")
    found = {}
    for each in rest[1:-1].split(","):
        name, _, value = each.partition("=")
        if name not in _NAMES:
            fail(f"--add-scram: give {', '.join(_NAMES)}, each as NAME=VALUE")
        is_quoted = len(value) >= 2 and value[0] == value[-1] == '"'
        found[name] = value[1:-1] if is_quoted else value
    if "name" not in found or ("password" not in found and not {"salt", "saltedpassword"} <= {*found}):
        fail("--add-scram: give a name, and a password or a saltedpassword with its salt")
    iterations = _iterations(found.get("iterations", str(LEAST_ITERATIONS)))
    salt = _bytes_of("salt", found["salt"]) if "salt" in found else salt_of(secrets.token_bytes(SALT_BYTES + 1))
    password = found.get("password")
    if password == "":
        fail("--add-scram: password must not be empty")
    given = _bytes_of("saltedpassword", found["saltedpassword"]) if password is None else SALTED
    flaw = user_flaw(found["name"], _CODES[mechanism]) or credential_flaw(salt, given, iterations)
    if flaw is not None:
        fail(f"--add-scram: {flaw.message}")
    salted = given if password is None else salted_password(mechanism, password.encode(), salt, iterations)
    made = salted_credential(mechanism, salted, salt, iterations)
    return UserScramCredentialRecord(
        name=found["name"],
        mechanism=_CODES[mechanism],
        salt=made.salt,
        stored_key=made.stored_key,
        server_key=made.server_key,
        iterations=iterations,
    )


def _iterations(text: str) -> int:
    iterations = int(text) if text.isdecimal() and len(text) < 10 else 0
    if credential_flaw(b"", SALTED, iterations) is not None:
        fail(f"--add-scram: iterations={text}: give a number from {LEAST_ITERATIONS:,} to {MOST_ITERATIONS:,}")
    return iterations


def _bytes_of(name: str, text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except ValueError:
        fail(f"--add-scram: {name} is not Base64")
