"""The order of the values of inter.broker.protocol.version, such as "2.2-IV0" and "3.9"."""

import re
from typing import Final

from kcore.errors import UnsupportedVersionError

NEWEST_LEVEL: Final = 99  # "2.4" without a level means the last of 2.4.


def at_least(inter_broker_protocol: str, since: str) -> bool:
    """True if the protocol version is `since` or newer."""
    return parsed(since) <= parsed(inter_broker_protocol)


def parsed(text: str) -> tuple[int, ...]:
    """The numbers of a version; UnsupportedVersionError if it is none.

    "0.10.0-IV1" is (0, 10, 0, 1), "2.4" and the release "2.4.1" are (2, 4, 0, 99).
    """
    match = re.fullmatch(r"(0\.\d+)\.(\d)(?:-IV(\d+)|\.\d+)?", text)
    match = match or re.fullmatch(r"([1-9]\.\d+)()(?:-IV(\d+)|\.\d+)?", text)
    if match is None:
        raise UnsupportedVersionError(f"{text!r} is not an inter.broker.protocol.version such as '2.2-IV0' or '3.9'")
    release, patch, level = match.groups()
    numbers = tuple(map(int, release.split(".")))
    return (*numbers, int(patch or 0), int(level) if level else NEWEST_LEVEL)
