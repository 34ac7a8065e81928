"""The facts of Kafka's ConfigDefs, as tests/recorder/ConfigFacts.java printed them from the jars."""

import gzip
import json
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

DATA = Path(__file__).parent / "data" / "settings"


class ConfigFact(NamedTuple):
    """One setting; `takes`: whether Kafka takes each of the probes. `least`, `most`: bounds of a whole number."""

    name: str
    kind: str
    default: str
    takes: dict[str, bool]
    least: int | None
    most: int | None


@cache
def config_facts(release: str, group: str) -> dict[str, ConfigFact]:
    """By name; `group`: "server", "topic", "group", or another of ConfigFacts.java."""
    first, *lines = _lines(release)
    return {
        line["name"]: ConfigFact(
            line["name"],
            line["type"],
            line["default"] or "",
            {probe: digit == "1" for probe, digit in zip(first["probes"], line["takes"], strict=True)},
            *line.get("range", (None, None)),
        )
        for line in lines
        if line["of"] == group
    }


def dynamic_names(release: str) -> set[str]:
    """The settings of brokers that a running broker takes changes of."""
    return {*_lines(release)[0]["dynamic"]}


@cache
def _lines(release: str) -> list[dict[str, Any]]:
    with gzip.open(DATA / f"config_defs_{release}.jsonl.gz", "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]
