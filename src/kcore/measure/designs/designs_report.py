"""Renders the measurements of the designs as tables and charts, for a terminal and for the page."""

from collections.abc import Callable, Sequence
from html import escape
from pathlib import Path
from typing import Any, Final

from rich import box
from rich.console import Console
from rich.markup import escape as escape_markup
from rich.table import Table

from kcore.measure.designs.designs_rows import NEEDED, SCHEMA, Row, merged, one_write_ms, predicted
from kcore.measure.report.charts import Axis, Bar, bar_chart
from kcore.measure.report.earlier import EarlierRun, ResultKind, earlier_runs
from kcore.measure.report.figure_history import Figures, history_section
from kcore.measure.report.noise import about_the_machine
from kcore.measure.report.palette import SERIES
from kcore.measure.report.report_page import about_the_run, answer, charts, figure, html_table, page, paragraphs
from kcore.measure.report.units import duration, size, three_digits

_NS: Final = 1e6  # Nanoseconds in a millisecond.
_KIND: Final = ResultKind(SCHEMA, NEEDED, own=("name", "article_ms"))
_HEAD: Final = ("what", "size")
Columns = dict[str, Callable[[Row], str]]


def _count(name: str) -> Callable[[Row], str]:
    return lambda row: "" if getattr(row, name) < 0 else f"{getattr(row, name):,}"


def _ms(name: str) -> Callable[[Row], str]:
    return lambda row: "" if getattr(row, name) < 0 else duration(getattr(row, name) * _NS)


def _each(name: str) -> Callable[[Row], str]:
    """The figure `name` divided by the row's `count`."""
    return lambda row: "" if getattr(row, name) < 0 else three_digits(getattr(row, name) / row.count)


_DESIGNS: Final[Columns] = {
    "design": lambda row: row.name,
    "watchers": _count("watchers"),
    "znodes": _count("znodes"),
    "leaders": _count("count"),
    "reads": _count("reads"),
    "writes": _count("writes"),
    "events": _count("events"),
    "bytes": lambda row: size(row.bytes + row.rpc_bytes),
    "time": _ms("ms"),
    "clients": _ms("routed_ms"),
    "predicted": _ms("predicted_ms"),
    "at 4 ms": _ms("article_ms"),
}
_WRITES: Final[Columns] = {
    "state writes": lambda row: row.name,
    "writes": _count("count"),
    "time": _ms("ms"),
    "each": lambda row: "" if row.ms < 0 else duration(row.ms / row.count * _NS),
    "predicted": _ms("predicted_ms"),
    "at 4 ms": _ms("article_ms"),
    "": lambda row: row.note,
}
_COMMANDS: Final[Columns] = {
    "a command": lambda row: row.name,
    "writes": _each("writes"),
    "watches fired": _each("events"),
    "reads": _each("reads"),
    "packets of ZooKeeper": _each("packets"),
    "time": _ms("ms"),
}
TABLES: Final[dict[str, tuple[str, Columns]]] = {
    "design": ("a broker is lost", _DESIGNS),
    "writes": ("step 3: a state write a partition", _WRITES),
    "command": ("a command to one broker", _COMMANDS),
}
LEGEND: Final = (
    "watchers, znodes, events (fired watches), bytes: ZooKeeper's own counts; watchers and znodes before the loss, "
    "all others after it. leaders: partitions that lost their leader. time: from the end of the lost broker's session "
    "(its time-out is not counted) until every live replica has the new leader; clients: until a client of all "
    "partitions has read the external view. predicted: writes x the measured time of one write; "
    "at 4 ms: as in the article. Brokers and controller of every design share one Python process with their load; "
    "the medians of all repetitions are shown."
)


def cells_of(rows: Sequence[Row], kind: str) -> tuple[list[str], list[tuple[list[str], bool]]]:
    """The headings and lines of one of TABLES."""
    columns = TABLES[kind][1]
    chosen = [row for row in merged(predicted(rows)) if row.kind == kind]
    return list(columns), [([text(row) for text in columns.values()], False) for row in chosen]


def findings(rows: Sequence[Row]) -> list[str]:
    """The conclusions from the figures, one line each."""
    by_name = {row.name: row for row in merged(rows)}
    lines = []
    each_ms = one_write_ms(rows)
    if each_ms > 0:
        lines.append(
            f"One ZooKeeper write takes {duration(each_ms * _NS)} here, 4 ms in the article: for 10,000 partitions "
            f"{duration(each_ms * 10_000 * _NS)} and 40 s."
        )
    queue, direct = by_name.get("through the queue"), by_name.get("direct request")
    if queue and direct:
        lines.append(
            f"A command through the queue takes {three_digits(queue.ms / direct.ms)} times a direct request; "
            "the article counts six messages between nodes (two writes of two, a watch, a read) against one. "
            "ZooKeeper counts a read as two, and there is one more, to watch again."
        )
    return lines


def troubles(rows: Sequence[Row]) -> list[str]:
    """The failures, one line each."""
    return [f"failed: {row.name}, repetition {row.repetition}: {row.error}" for row in rows if row.error is not None]


def headline(rows: Sequence[Row]) -> str:
    """The size of the cluster as text."""
    return f"{rows[0].brokers:,} brokers, {rows[0].partitions:,} partitions" if rows else "nothing was measured"


def show(console: Console, rows: Sequence[Row]) -> None:
    """Prints the tables, the conclusions, then the failures."""
    console.print(f"[bold]{headline(rows)}[/]")
    for kind, (title, _) in TABLES.items():
        head, lines = cells_of(rows, kind)
        if lines:
            console.print(_table(f"[bold]{title}[/]", head, lines))
    for line in [LEGEND, *findings(rows)]:
        console.print(escape_markup(line))
    for line in troubles(rows):
        console.print(f"[bold red]{escape_markup(line)}[/]", soft_wrap=True)


def _table(title: str, head: Sequence[str], lines: Sequence[tuple[Sequence[str], bool]]) -> Table:
    table = Table(title=title, title_justify="left", header_style="dim", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for name in head:
        is_left = name in (head[0], "")
        table.add_column(name, justify="left" if is_left else "right", no_wrap=True)
    for cells, _ in lines:
        table.add_row(*map(escape_markup, cells))
    return table


def render(rows: Sequence[Row], facts: dict[str, Any], directory: Path | None = None) -> str:
    """The page with the same tables, to send to a colleague; earlier runs are searched beside `directory`."""
    failed = "".join(f'<p class="bad">{escape(line)}</p>' for line in troubles(rows))
    tables = (_section(rows, kind, title) for kind, (title, _) in TABLES.items())
    lead = f'<p class="lead">{escape(facts.get("when", ""))} · {escape(headline(rows))}</p>'
    notes = "".join(f"<p>{escape(line)}</p>" for line in [*findings(rows), LEGEND])
    busy = paragraphs(about_the_machine(facts), "warn")
    head = ["<h1>kcore bench designs</h1>", lead, _answer(rows), failed, busy]
    end = [notes, _history(rows, facts, directory), about_the_run(facts)]
    return page("kcore bench designs", [*head, *tables, *end])


def _answer(rows: Sequence[Row]) -> str:
    """The page's answer: which design is the quickest after a broker's loss, and by how much."""
    timed = sorted((row for row in merged(rows) if row.kind == "design" and row.ms > 0), key=lambda row: row.ms)
    if not timed:
        return answer("No answer: no design was timed after the loss of a broker.", kind="bad")
    best, *others = timed
    sentence = (
        f'After the loss of a broker "{best.name}" needs {duration(best.ms * _NS)} until every replica knows its leader'
    )
    ends = [f'{three_digits(row.ms / best.ms)} ("{row.name}")' for row in (others[:1] + others[-1:])]
    more = f"the other designs need {' to '.join(dict.fromkeys(ends))} times that"
    return answer(f"{sentence}; {more}." if others else f"{sentence}.")


def _history(rows: Sequence[Row], facts: dict[str, Any], directory: Path | None) -> str:
    """The section with the time of each design in this run and in earlier runs."""
    earlier = earlier_runs(directory, facts, _KIND)
    about = "The time of each, the median of the repetitions. A single run varies: a ratio of it says little."
    return history_section(_HEAD, _times(rows), earlier, _read, lambda ms: duration(ms * _NS), about)


def _read(run: EarlierRun) -> Figures:
    return _times([Row.of(row) for row in run.table.select(NEEDED).to_pylist()])


def _times(rows: Sequence[Row]) -> Figures:
    """The times in milliseconds, by name and size of the cluster."""
    return {(row.name, f"{row.brokers:,} x {row.partitions:,}"): row.ms for row in merged(rows) if row.ms > 0}


def _section(rows: Sequence[Row], kind: str, title: str) -> str:
    """The charts and the table of one of TABLES."""
    head, lines = cells_of(rows, kind)
    if not lines:
        return ""
    drawn = charts([figure(_time_chart(rows, kind, title)), figure(_writes_chart(rows, kind, title))])
    return f"<h2>{escape(title)}</h2>{drawn}{html_table(head, lines, ('', 'note'))}"


def _time_chart(rows: Sequence[Row], kind: str, title: str) -> str:
    """A chart of the time of each row, and of the time that its writes should take."""
    timed = [row for row in merged(predicted(rows)) if row.kind == kind and row.ms >= 0]
    bars = [
        Bar(row.name, row.ms * _NS, SERIES[0], _tip(row), duration(row.ms * _NS),
            row.predicted_ms * _NS if row.predicted_ms > 0 else None)
        for row in timed
    ]  # fmt: skip
    bound = "predicted of the writes" if any(bar.bound for bar in bars) else ""
    return bar_chart(f"{title}: time", bars, Axis("time"), bound=bound)


def _writes_chart(rows: Sequence[Row], kind: str, title: str) -> str:
    """A chart of the number of writes of each row that counts writes."""
    counted = [row for row in merged(rows) if row.kind == kind and row.writes >= 0]
    bars = [Bar(row.name, row.writes, SERIES[4], _tip(row), f"{row.writes:,}") for row in counted]
    return bar_chart(f"{title}: writes", bars, Axis("writes of znodes", lambda value: f"{value:,.0f}"))


def _tip(row: Row) -> str:
    lines = [f"{row.name}: {duration(row.ms * _NS)}" if row.ms >= 0 else row.name]
    return "\n".join([*lines, f"{row.writes:,} writes" if row.writes >= 0 else ""]).strip()
