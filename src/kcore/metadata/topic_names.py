"""Checks names of topics and numbers of partitions (org.apache.kafka.common.internals.Topic of 3.9.1).

A name becomes a folder, a znode and a key, so every entry point checks it.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Final

from kcore.protocol_errors import Errors

MAX_LENGTH: Final = 249
MAX_PARTITION: Final = 2**31 - 1  # An index is an int32.
MAX_FOLDER_NAME: Final = 255  # Bytes: NAME_MAX of Linux's file systems.
_LEGAL: Final = re.compile(r"[a-zA-Z0-9._-]+")


def validate_topic_name(name: str) -> None:
    """Raises InvalidTopicException for an invalid topic name."""
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

    The partition's folder must have a valid name too: `name-partition` in at most 255 bytes.
    """
    if reason_invalid(name) is not None:
        return Errors.INVALID_TOPIC_EXCEPTION
    if not 0 <= partition <= MAX_PARTITION or len(f"{name}-{partition}") > MAX_FOLDER_NAME:
        return Errors.INVALID_PARTITIONS
    return Errors.NONE


class Collisions:
    """Finds topics whose metrics would have the same name, since periods become underscores there."""

    def __init__(self, names: Iterable[str]) -> None:
        """The existing topics, which are read only when the first name has a period or an underscore."""
        self._names, self._added = names, list[str]()
        self._by_metric: dict[str, list[str]] | None = None

    def add(self, name: str) -> None:
        """Add a topic."""
        self._added.append(name)

    def of(self, name: str) -> Sequence[str]:
        """The topics that collide with `name`, in the order in which they were given."""
        if not may_collide(name):
            return ()
        if self._by_metric is None:
            self._by_metric = {}
            self._take_in(self._names)
        self._take_in(self._added)
        self._added.clear()
        return self._by_metric.get(_metric(name), ())

    def _take_in(self, names: Iterable[str]) -> None:
        assert self._by_metric is not None
        for name in names:
            if may_collide(name):
                self._by_metric.setdefault(_metric(name), []).append(name)


def may_collide(name: str) -> bool:
    """True if the name's metrics have another name."""
    return "." in name or "_" in name


def _metric(name: str) -> str:
    return name.replace(".", "_")
