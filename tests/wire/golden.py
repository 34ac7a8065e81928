"""The recorded bytes of the messages that kcore has a schema for."""

from typing import Any

import cases
from kcore.schema import MESSAGES


def vectors() -> list[tuple[str, dict[str, Any]]]:
    """(message name, case) of every request, response and header of either Kafka."""
    cased = [(name_of(case), case) for stem in ("golden-39", "golden-4") for case in cases.load(stem)]
    return [(name, case) for name, case in cased if name in MESSAGES]


def name_of(case: dict[str, Any]) -> str:
    return str(case["api"]) + (case["type"].capitalize() if case["type"] in ("request", "response") else "")
