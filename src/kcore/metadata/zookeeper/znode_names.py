"""Checks the names of znodes, and encodes names of users and clients for them.

Source: ZooKeeper's PathUtils.validatePath; Kafka's Sanitizer.
"""

import re
from typing import Final
from urllib.parse import quote, unquote_plus

DEFAULT: Final = "<default>"  # ZooKeeperInternals.DEFAULT_STRING: the name of a default entity.
_IMPOSSIBLE: Final = re.compile("[\x00-\x1f\x7f-\x9f/\ud800-\uf8ff\ufff0-\U0010ffff]")


def is_znode_name(name: str) -> bool:
    """True if ZooKeeper accepts the name as the last part of a path."""
    return name not in ("", ".", "..") and _IMPOSSIBLE.search(name) is None


def sanitized(name: str) -> str:
    """The znode name of a user or client: URL encoding, but with %20 for a space."""
    return quote(name, safe="-_.").replace("~", "%7E")


def desanitized(name: str) -> str:
    """The name of the user or client with this znode name."""
    return unquote_plus(name)
