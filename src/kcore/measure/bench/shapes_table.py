"""The table of message shapes: the bytes per partition before and after KIP-380, on the wire and in memory."""

import re
from collections.abc import Sequence

from kcore.measure.bench.bench_results import Summary
from kcore.measure.report.units import three_digits

_VERSION = re.compile(r" v\d+")
HEAD = ("message", "on the wire", "as columns", "as objects", "wire, against the shape before")


def shape_rows(summaries: Sequence[Summary]) -> list[tuple[str, ...]]:
    """The headings, then one row per message and version, in bytes per partition."""
    by_version: dict[str, dict[str, Summary]] = {}
    for summary in summaries:
        by_version.setdefault(summary.group, {})[summary.action] = summary
    rows: list[tuple[str, ...]] = [HEAD]
    before: dict[str, float] = {}  # Wire bytes of each message's first version; versions come oldest first.
    for group, actions in by_version.items():
        message = _VERSION.sub("", group)
        wire = _a_partition(actions["as columns"], "wire_bytes")
        change = f"{wire / before[message] - 1:+.0%}" if message in before else ""
        before.setdefault(message, wire)
        memory = [
            three_digits(_a_partition(actions[view], "memory_bytes")) if view in actions else ""
            for view in ("as columns", "as objects")
        ]
        rows.append((group, three_digits(wire), *memory, change))
    return rows


def _a_partition(summary: Summary, name: str) -> float:
    return float(getattr(summary, name) or 0) / max(1, summary.handled_partitions)
