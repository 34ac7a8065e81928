"""Which names of topics and numbers of partitions are valid (org.apache.kafka.common.internals.Topic of 3.9.1).

A name becomes a folder, a znode and a key, so every entry point checks it.
"""

import re
from collections.abc import Iterable
from typing import Final

from kcore.protocol_errors import Errors

MAX_LENGTH: Final = 249
MAX_PARTITION: Final = 2**31 - 1  # An index is an int32.
MAX_FOLDER_NAME: Final = 255  # Bytes: NAME_MAX of Linux's file systems.
_LEGAL: Final = re.compile(r"[a-zA-Z0-9._-]+")


def validate_topic_name(name: str) -> None:
    """Raises InvalidTopicException for a name that no topic may have."""
    if reason := reason_invalid(name):
        Errors.INVALID_TOPIC_EXCEPTION.raise_for(f"Topic name is invalid: {reason}")


def reason_invalid(name: str) -> str | None:
    """Why the name is invalid; None if it is valid."""
    if not name:
        return "the empty string is not allowed"
    if name in (".", ".."):
        return f"'{name}' is not allowed"
    if len(name) > MAX_LENGTH:
        return f"the length of '{name}' is longer than the max allowed length {MAX_LENGTH}"
    if not _LEGAL.fullmatch(name):
        return f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    return None


def partition_error(name: str, partition: int) -> Errors:
    """The error for an invalid topic name or partition number; NONE if both are valid.

    Its folder must have a name too: `name-partition` in at most 255 bytes.
    """
    if reason_invalid(name) is not None:
        return Errors.INVALID_TOPIC_EXCEPTION
    if not 0 <= partition <= MAX_PARTITION or len(f"{name}-{partition}") > MAX_FOLDER_NAME:
        return Errors.INVALID_PARTITIONS
    return Errors.NONE


def colliding(name: str, others: Iterable[str]) -> list[str]:
    """The other topics whose metrics would have the same name: periods become underscores there."""
    if "." not in name and "_" not in name:
        return []
    unified = name.replace(".", "_")
    return [other for other in others if other.replace(".", "_") == unified]
