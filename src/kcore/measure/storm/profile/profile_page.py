"""The section of a storm's page on where the controllers' CPU time went, and its tables for a terminal."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Final

from rich import box
from rich.console import Console
from rich.table import Table

from kcore.measure.report.report_page import figure, html_table, paragraphs
from kcore.measure.storm.profile.flame import LEAST
from kcore.measure.storm.profile.profile_files import file_name
from kcore.measure.storm.profile.profile_rules import LAYERS
from kcore.measure.storm.profile.profile_tables import ProfileRow, event_table, layer_table, sizes_of, thread_table

ABOUT: Final = (
    "CPU time of the controllers' threads, as the operating system counts it, from the intended moment of a "
    "scenario until the last broker knew; means of repetitions. Samplers say what a thread did: py-spy in kcore's "
    "controllers, async-profiler in Kafka's, up to 1,000 times a second. They take CPU time themselves: compare a "
    "profiled storm with profiled ones only.",
    "Time in a compiled kernel of kcore belongs to the layer that calls it. kcore's layers are by files, Kafka's by "
    "packages; garbage collection of Python is in the layer that it interrupts.",
)


def section(rows: Sequence[ProfileRow], drawn: Mapping[str, str], costs: Sequence[str] = ()) -> str:
    """The section as HTML; empty without a profile. `drawn`: flame graphs by file name; `costs`: of samplers."""
    if not rows:
        return ""
    parts = [f'<h2 id="profile">Where the controllers\' time went</h2>{paragraphs((*ABOUT, *costs))}']
    for title, group in sizes_of(rows):
        name = file_name(*(group[0][key] for key in ("target", "brokers", "partitions")))
        files = " · ".join(f'<a href="{escape(name)}.{kind}">{kind}</a>' for kind in ("html", "svg", "folded"))
        caption = f"A frame's width is CPU time, its colour the layer that took most of it. Least width: {LEAST:.1%}."
        head, lines = layer_table(group)
        parts += [f"<h3>{escape(title)}</h3>", html_table(head, lines), figure(drawn.get(name, ""), caption)]
        parts.append(f"<p>{files}</p>")
        parts += [f"<h4>By event</h4>{html_table(*event_table(group), ('scenario', 'event'))}"]
        parts += [f"<h4>By thread</h4>{html_table(*thread_table(group), ('scenario', 'thread'))}"]
    legend = html_table(["layer", "is"], [([name, what], False) for name, what in LAYERS.items()], ("layer", "is"))
    return "".join(parts) + legend


def show(console: Console, rows: Sequence[ProfileRow]) -> None:
    """The table of layers of each target and size."""
    for title, group in sizes_of(rows):
        head, lines = layer_table(group)
        table = Table(title=f"[bold]{title}[/]: the controllers' CPU time by layer", title_justify="left",
                      header_style="dim", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))  # fmt: skip
        for name in head:
            table.add_column(name, justify="left" if name == head[0] else "right", no_wrap=True)
        for cells, _ in lines:
            table.add_row(*cells)
        console.print(table)
