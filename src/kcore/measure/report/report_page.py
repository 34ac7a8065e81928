"""The pieces of a report's page: one HTML file that can be sent to a colleague."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, Final, TypeAlias

from kcore.measure.report.build import Build, build_lines
from kcore.measure.report.noise import load_facts
from kcore.measure.report.own_code import DIGITS
from kcore.measure.report.script import SCRIPT
from kcore.measure.report.style import STYLE
from kcore.measure.report.units import size

_SAVE: Final = (
    '<div class="save" hidden><button data-save="svg">save SVG</button><button data-save="png">save PNG</button></div>'
)
FILTERED_FROM: Final = 8  # A table with so many rows has a filter.


@dataclass(frozen=True, slots=True)
class Mark:
    """A word after a figure, such as noisy or invalid; the page shows the reason at the pointer."""

    word: str
    why: str = ""


@dataclass(frozen=True, slots=True)
class Marked:
    """A cell of a table with marks after its text."""

    text: str
    marks: Sequence[Mark] = ()

    def __str__(self) -> str:
        return " ".join(filter(None, (self.text, *(mark.word for mark in self.marks))))


Cell: TypeAlias = str | Marked
Lines: TypeAlias = Iterable[tuple[Sequence[Cell], bool]]
"""Rows of a table: cells as text, and whether the row begins a group."""


def page(title: str, body: Iterable[str]) -> str:
    """The whole HTML file; `body`: its parts in HTML."""
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{STYLE}</style></head>'
        f"<body><main>{''.join(body)}</main><script>{SCRIPT}</script></body></html>\n"
    )


def fact_lists(facts: dict[str, Any]) -> str:
    """Lists of the machine, its load and the versions, from the result of `kcore.measure.report.machine.facts`."""
    machine = facts.get("machine", {}) | {"memory": size(facts.get("machine", {}).get("memory_bytes"))}
    machine.pop("memory_bytes", None)
    versions = facts.get("versions", {}) | ({"JVM": facts["jvm"]} if facts.get("jvm") else {})
    code = facts.get("code", {})
    versions |= {"kcore's code": code["sha256"][:DIGITS]} if code.get("sha256") else {}
    versions |= {"kcore's commit": code["commit"]} if code.get("commit") else {}
    if facts.get("java") and not facts.get("jvm"):
        versions |= {"java": facts["java"]}
    lists = _fact_list("Machine", machine | load_facts(facts)) + _fact_list("Versions", versions)
    return f'<div class="facts">{lists}</div>'


def _fact_list(title: str, facts: dict[str, Any]) -> str:
    items = "".join(f"<dt>{escape(key)}</dt><dd>{escape(str(value))}</dd>" for key, value in facts.items())
    return f"<section><h3>{title}</h3><dl>{items}</dl></section>"


def html_table(head: Sequence[str], rows: Lines, text: Collection[str] = (), marks: Sequence[str] = ()) -> str:
    """A table with a button that copies it and, from FILTERED_FROM rows on, a filter; a row with True begins a group.

    `text`: names of columns that hold words; the first column always does. `marks`: each row's class, "bad" or "good".
    On a narrow screen each row is a list of names and cells.
    """
    kinds = [_class("text" if name in text else "") for name in head]
    names = "".join(f"<th{kind}>{escape(name)}</th>" for name, kind in zip(head, kinds, strict=True))
    found = list(rows)
    lines = []
    for at, (cells, starts) in enumerate(found):
        classes = " ".join(filter(None, ("size" if starts else "", marks[at] if marks else "")))
        columns = zip(head, kinds, cells, strict=True)
        line = "".join(f'<td{kind} data-name="{escape(name)}">{_cell(cell)}</td>' for name, kind, cell in columns)
        lines.append(f"<tr{_class(classes)}>{line}</tr>")
    search = '<input type="search" placeholder="filter rows" aria-label="filter rows">'
    tools = f"{search if len(found) >= FILTERED_FROM else ''}<button>copy as Markdown</button>"
    return (
        f'<div class="frame"><div class="tools" hidden>{tools}<span class="count"></span></div>'
        f'<div class="scroll"><table><thead><tr>{names}</tr></thead><tbody>{"".join(lines)}</tbody></table></div></div>'
    )


def _cell(cell: Cell) -> str:
    return escape(cell) if isinstance(cell, str) else f"{escape(cell.text)}{marks_html(cell.marks)}"


def marks_html(marks: Iterable[Mark]) -> str:
    """Each mark as one word; the page shows its reason when the pointer is on the word."""
    return "".join(
        f'<span class="mark {escape(mark.word)}" title="{escape(mark.why)}">{escape(mark.word)}</span>'
        for mark in marks
    )


def answer(sentence: str, marks: Iterable[Mark] = (), kind: str = "") -> str:
    """The sentence that answers the page's question, in large type above everything else."""
    return f'<p class="{f"answer {kind}".rstrip()}">{escape(sentence)}{marks_html(marks)}</p>'


def beside(*parts: str) -> str:
    """Puts tables and charts next to each other if the screen is wide enough."""
    return f'<div class="beside">{"".join(parts)}</div>'


def about_the_run(facts: dict[str, Any]) -> str:
    """The section on the machine and the versions."""
    return f'<h2 id="machine">Machine and versions</h2>{fact_lists(facts)}'


def build_section(builds: Mapping[str, Build]) -> str:
    """The section on the builds of the targets: releases, JVMs, options, properties, jars."""
    head, lines = build_lines(builds)
    table = html_table(head, [(line, False) for line in lines], head) if lines else ""
    return f'<h2 id="targets">Targets</h2>{table or paragraphs(["The results do not say which releases ran."])}'


def figure(chart: str, caption: str = "", numbers: str = "") -> str:
    """A chart above its caption and the folded table of its numbers; empty without a chart."""
    if not chart:
        return ""
    folded = folded_numbers(numbers) if numbers else ""
    words = f"<figcaption>{escape(caption)}</figcaption>" if caption else ""
    return f"<figure>{chart}{_SAVE}{words}{folded}</figure>"


def charts(figures: Iterable[str], packed: bool = False) -> str:
    """Puts figures side by side if there is room; `packed`: in columns, for charts of different heights."""
    found = "".join(figures)
    return f'<div class="{"packed" if packed else "charts"}">{found}</div>' if found else ""


def folded_numbers(table: str, title: str = "The numbers") -> str:
    """A table that opens at a click."""
    return f"<details><summary>{escape(title)}</summary>{table}</details>"


def navigation(anchors: Iterable[str]) -> str:
    """Links to the headings with these ids."""
    return f"<nav>{''.join(f'<a href=#{name}>{name}</a>' for name in anchors)}</nav>"


def paragraphs(lines: Iterable[str], kind: str = "") -> str:
    """A paragraph for each line; `kind`: the class of the paragraphs."""
    return "".join(f"<p{_class(kind)}>{escape(line)}</p>" for line in lines)


def bullets(lines: Iterable[str], kind: str = "") -> str:
    """A list with an item for each line; empty without lines. `kind`: the class of the list."""
    found = "".join(f"<li>{escape(line)}</li>" for line in lines)
    return f"<ul{_class(kind)}>{found}</ul>" if found else ""


def _class(name: str) -> str:
    return f' class="{name}"' if name else ""
