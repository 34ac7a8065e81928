"""A frame of `kcore top` as text: some lines, a table of the quorum's replicas and a table of the brokers."""

from collections.abc import Sequence
from typing import Final

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from kcore.cli.console import cell
from kcore.measure.report.units import size
from kcore.measure.watch.frame import Broker, Frame, Measured, Replica
from kcore.printable import printable

WIDE: Final = 90  # Terminals of this many columns show all columns of the tables.
MOST_ROWS: Final = 40  # Rows of a table if the output is no terminal.
LEAST_ROWS: Final = 4
STALE_S: Final = 5.0
STATES: Final = {"fenced": "red", "shutting down": "yellow", "active": ""}


def view_of(frame: Frame, width: int, height: int | None = None) -> RenderableType:
    """The frame in `width` columns; with `height`, the tables are cut so that all fits into the terminal."""
    lines = [*_head(frame), *_of_log(frame), *_of_metrics(frame.measured), *_problems(frame)]
    taken = sum(1 + len(line.plain) // max(width, 1) for line in lines) + 4
    room = 2 * MOST_ROWS if height is None else max(height - taken, 2 * LEAST_ROWS)
    replicas = _replicas(frame.replicas, min(MOST_ROWS, max(room // 2, LEAST_ROWS)), is_wide=width >= WIDE)
    left = min(MOST_ROWS, max(room - replicas.row_count - 2, LEAST_ROWS))
    tables = [replicas] if frame.replicas else []
    tables += [_brokers(frame.brokers, left)] if frame.brokers else []
    return Group(*lines, *tables)


def _line(name: str, parts: Sequence[tuple[str, str] | str | None]) -> Text:
    """A line with a name and its parts; a part may have a style, and None is left out."""
    line = Text(f"{name:<11}", style="bold")
    shown = [each for each in parts if each is not None]
    for place, each in enumerate(shown):
        text, style = (each, "") if isinstance(each, str) else each
        line.append(printable(text), style=style or "not bold")
        line.append(" · " if place + 1 < len(shown) else "", style="dim not bold")
    return line


def _head(frame: Frame) -> list[Text]:
    if frame.leader_id is None:
        return [_line("quorum", [("no answer yet", "yellow")])]
    is_stale = frame.age_s is not None and frame.age_s > STALE_S
    age = (f"as of {frame.age_s:.0f} s ago", "bold red") if is_stale else None
    where = f" at {frame.leader_address}" if frame.leader_address else ""
    level = frame.partitions.metadata_version if frame.partitions else None
    quorum = [
        f"leader {frame.leader_id}{where}, epoch {frame.epoch}",
        f"high watermark {frame.high_watermark:,}",
        f"cluster {frame.cluster_id}",
        None if level is None else f"metadata.version {level}",
        age,
    ]
    return [_line("quorum", quorum)]


def _of_log(frame: Frame) -> list[Text]:
    if frame.partitions is None:
        return [_line("log", ["not read yet"])] if frame.leader_id is not None else []
    counts, rates = frame.partitions, frame.rates
    fenced = sum(each.state == "fenced" for each in frame.brokers)
    leaving = sum(each.state == "shutting down" for each in frame.brokers)
    lines = [
        _line(
            "brokers",
            [
                f"{len(frame.brokers):,} registered",
                _alarm("fenced", fenced),
                _alarm("shutting down", leaving, "yellow"),
            ],
        ),
        _line(
            "partitions",
            [
                f"{counts.partitions:,} of {counts.topics:,} topics",
                _alarm("offline", counts.offline),
                _alarm("under-replicated", counts.under_replicated, "yellow"),
                f"{counts.not_preferred:,} not led by the preferred replica",
            ],
        ),
    ]
    if rates is not None:
        shown = [
            f"{rates.records:,.1f} records/s",
            f"{rates.partition_changes:,.1f} partition changes/s",
            f"{rates.isr_changes:,.1f} ISR changes/s",
            None if frame.commit_seen_ms is None else f"committed {frame.commit_seen_ms:,.2f} ms after they came",
        ]
        lines.append(_line("log", shown))
    return lines


def _alarm(what: str, count: int, style: str = "bold red") -> tuple[str, str]:
    return f"{count:,} {what}", style if count else ""


def _of_metrics(measured: Measured | None) -> list[Text]:
    """The line of figures from the metrics page; empty if the page has none of them."""
    if measured is None:
        return []
    kind = f" ({measured.longest_event})" if measured.longest_event else ""
    parts = [
        _of(measured.events_per_s, "{:,.0f} events/s"),
        _of(measured.busy, "{:.0%} busy"),
        _of(measured.longest_event_ms, "longest event {:,.1f} ms" + kind),
        _of(measured.longest_turn_ms, "longest turn {:,.1f} ms"),
        _of(measured.commit_avg_ms, "commit {:,.1f} ms"),
        _of(measured.commit_max_ms, "commit at most {:,.1f} ms"),
        _of(measured.heartbeats_per_s, "{:,.0f} heartbeats/s"),
        _of(measured.heartbeat_ms, "{:,.1f} ms each"),
        _of(measured.connections, "{:,.0f} connections"),
        _of(measured.cpu, "CPU {:.2f}"),
        None if measured.rss_bytes is None else f"RSS {size(measured.rss_bytes)}",
        _of(measured.snapshot_age_s, "snapshot {:,.0f} s ago"),
    ]
    return [_line("controller", parts)] if any(parts) else []


def _of(value: float | None, text: str) -> str | None:
    return None if value is None else text.format(value)


def _problems(frame: Frame) -> list[Text]:
    return [Text(f"{'!':<11}{printable(problem)}", style="red") for problem in frame.problems]


def _replicas(replicas: Sequence[Replica], most: int, *, is_wide: bool) -> Table:
    """The table of replicas: the leader, the other voters, then the observers, the one with the largest lag first."""
    table = _table("node", "role", "lag", "fetched", "caught up", *(("log end", "address") if is_wide else ()))
    observers = sorted((each for each in replicas if each.role == "observer"), key=lambda each: -each.lag)
    for each in [*(each for each in replicas if each.role != "observer"), *observers][:most]:
        times = _ago(each.fetched_ms_ago), _ago(each.caught_up_ms_ago)
        more = (f"{each.log_end_offset:,}", cell(each.address)) if is_wide else ()
        table.add_row(str(each.id), each.role, f"{each.lag:,}", *times, *more)
    _add_rest(table, len(replicas) - most, "less behind")
    return table


def _brokers(brokers: Sequence[Broker], most: int) -> Table:
    """The table of brokers, with those that are not active first."""
    table = _table("broker", "state", "leaders", "replicas", "rack")
    for each in sorted(brokers, key=lambda each: (each.state == "active", each.id))[:most]:
        state = Text(each.state, style=STATES[each.state])
        table.add_row(str(each.id), state, f"{each.leaders:,}", f"{each.replicas:,}", cell(each.rack))
    _add_rest(table, len(brokers) - most, "")
    return table


def _table(*names: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in names:
        is_number = name in ("lag", "log end", "leaders", "replicas", "fetched", "caught up")
        table.add_column(name, justify="right" if is_number else "left", no_wrap=True)
    return table


def _add_rest(table: Table, count: int, what: str) -> None:
    if count > 0:
        table.add_row("...", f"{count:,} more{' ' if what else ''}{what}", style="dim")


def _ago(ms: int | None) -> str:
    if ms is None:
        return "never"
    return f"{ms:,} ms ago" if ms < 10_000 else f"{ms / 1000:,.0f} s ago"
