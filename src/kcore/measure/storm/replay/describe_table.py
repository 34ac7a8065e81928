"""Prints a description of a recording as tables."""

from collections.abc import Iterable, Sequence

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from kcore.measure.storm.replay.describe import Description, Incident, Minute
from kcore.printable import printable


def show(console: Console, found: Description) -> None:
    """Prints the events by kind and by minute, the busiest minutes, and the failures."""
    begins = "a snapshot" if found.has_snapshot else "the log's begin"
    console.print(
        f"[bold]{escape(printable(found.trace))}[/]: {found.begin} to {found.end} UTC ({found.seconds:,.0f} s), from "
        f"{begins}: {found.records:,} records; at the end {found.brokers:,} brokers, {found.topics:,} topics, "
        f"{found.partitions:,} partitions",
        soft_wrap=True,
    )
    for title, kinds in (
        ("events that a replay does again", found.causes),
        ("decisions of the controller, which a replay compares", found.consequences),
    ):
        _table(console, title, ("event", "events", "items"), [(k.kind, f"{k.events:,}", f"{k.items:,}") for k in kinds])
    _table(
        console,
        "not replayed",
        ("event", "events", "why"),
        [(each.kind, f"{each.events:,}", each.why) for each in found.not_replayed],
    )
    _table(console, "minutes (UTC)", ("minute", "events", "kinds"), map(_minute, found.minutes))
    _table(console, "busiest minutes (UTC)", ("minute", "events", "kinds"), map(_minute, found.busiest))
    head = ("begin", "seconds", "failures", "brokers", "racks", "partitions", "unfenced after")
    _table(console, "failures", head, map(_incident, found.incidents))


def _minute(minute: Minute) -> tuple[str, ...]:
    return minute.time, f"{minute.events:,}", _counts(minute.kinds)


def _incident(incident: Incident) -> tuple[str, ...]:
    brokers = [*map(str, incident.brokers[:10]), *(["..."] if len(incident.brokers) > 10 else [])]
    back = "not all" if incident.unfenced_s is None else f"{incident.unfenced_s:,.1f} s"
    return (
        incident.time,
        f"{incident.seconds:,.1f}",
        _counts(incident.failures),
        ", ".join(brokers),
        ", ".join(incident.racks),
        f"{incident.partitions:,}",
        back,
    )


def _counts(kinds: dict[str, int]) -> str:
    return ", ".join(f"{count:,} {kind}" for kind, count in kinds.items())


def _table(console: Console, title: str, head: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    if not (lines := [*rows]):
        return
    table = Table(title=f"[bold]{title}[/]", title_justify="left", header_style="dim", box=box.SIMPLE_HEAD)
    for name in head:
        table.add_column(name, justify="right" if name in ("events", "items", "seconds", "partitions") else "left")
    for cells in lines:
        table.add_row(*(escape(printable(each)) for each in cells))
    console.print(table)
