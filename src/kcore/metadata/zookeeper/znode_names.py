"""Which names znodes can have, and the names of others in them.

Source: ZooKeeper's PathUtils.validatePath; Kafka's Sanitizer.
"""

import re
from typing import Final
from urllib.parse import quote, unquote_plus

DEFAULT: Final = "<default>"  # ZooKeeperInternals.DEFAULT_STRING: of an entity without a name.
_IMPOSSIBLE: Final = re.compile("[\x00-\x1f\x7f-\x9f/\ud800-\uf8ff\ufff0-\U0010ffff]")


def is_znode_name(name: str) -> bool:
    """Whether ZooKeeper takes it as the last part of a path."""
    return name not in ("", ".", "..") and _IMPOSSIBLE.search(name) is None


def sanitized(name: str) -> str:
    """A user's or a client's name as a znode's: URL encoding, but %20 for a space."""
    return quote(name, safe="-_.").replace("~", "%7E")


def desanitized(name: str) -> str:
    """The name whose znode is so called."""
    return unquote_plus(name)
