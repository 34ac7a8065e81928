"""What a topic may be called (org.apache.kafka.common.internals.Topic of 3.9.1)."""

import re
from collections.abc import Iterable
from typing import Final

from kcore.protocol_errors import Errors

MAX_LENGTH: Final = 249


def validate_topic_name(name: str) -> None:
    """Raises InvalidTopicException for a name that no topic may have."""
    if reason := reason_invalid(name):
        Errors.INVALID_TOPIC_EXCEPTION.raise_for(f"Topic name is invalid: {reason}")


def reason_invalid(name: str) -> str | None:
    """Why no topic may be called that; None if one may."""
    if not name:
        return "the empty string is not allowed"
    if name in (".", ".."):
        return f"'{name}' is not allowed"
    if len(name) > MAX_LENGTH:
        return f"the length of '{name}' is longer than the max allowed length {MAX_LENGTH}"
    if not re.fullmatch(r"[a-zA-Z0-9._-]+", name):
        return f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    return None


def colliding(name: str, others: Iterable[str]) -> list[str]:
    """Those of the others whose metrics would have the same name: a period there is an underscore."""
    if "." not in name and "_" not in name:
        return []
    unified = name.replace(".", "_")
    return [other for other in others if other.replace(".", "_") == unified]
