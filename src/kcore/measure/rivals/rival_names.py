"""Printed names of the cases, groups and figures of the comparison with rivals."""

import math
from typing import Final

from kcore.measure.rivals.rival_targets import KCORE, OBJECTS

VIEWS: Final = {KCORE: "big", OBJECTS: "small"}
"""The messages of the group `messages` that each view of kcore runs."""
MESSAGES: Final = {"LeaderAndIsrRequest": "LISR", "UpdateMetadataRequest": "UMR"}
WORDS: Final = {
    **{
        "decode_nogc": "decode, gc off",
        "read_nogc": "decode and read, gc off",
        "fanout": "fan-out",
        "fanout_copy": "fan-out, one copy",
    },
    **{"scan": "one down, full scan", "full": "every partition elects"},
    **{"batches:segment": "batches with CRC", "mapped:segment": "the same, mapped", "crc:segment": "bare CRC-32C"},
}
"""Printed names of operations whose own names are unclear."""
TITLES: Final = {
    "memory": "memory: live MiB",
    "small": "messages as objects: ns a message, least of all runs",
    "big": "messages as columns: ns a partition, least of all runs",
    "records": "records: ns a KiB, least of all runs",
}
"""Title and unit of the groups and views whose unit is not ns a partition."""


def view_of(case: str) -> str:
    """The size of the messages of a case, "small" or "big", in the group `messages`; empty in other groups."""
    shape = case.split(":")[-1]
    return shape if shape in VIEWS.values() else ""


def short_name(case: str) -> str:
    """The printed name of a case, such as "LISR v7 encode fresh" or "offline mixed"."""
    if case in WORDS:
        return WORDS[case]
    operation, *rest = case.split(":")
    words = WORDS.get(operation, operation.replace("_", " "))
    if len(rest) == 3:
        message, version, shape = rest
        name = MESSAGES.get(message, message.removesuffix("Request"))
        return f"{name} v{version} {words}" + ("" if shape in ("uniform", *VIEWS.values()) else f" {shape}")
    return " ".join([words, *rest])


def figure(value: float | None) -> str:
    """The value with three significant digits and without exponent; "-" for None."""
    if value is None:
        return "-"
    decimals = 2 - math.floor(math.log10(abs(value))) if value else 0
    return f"{round(value, decimals):,.{max(0, decimals)}f}"
