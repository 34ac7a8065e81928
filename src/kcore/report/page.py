"""The pieces of a report's page: one HTML file that can be sent to a colleague."""

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

from kcore.report.style import STYLE
from kcore.report.units import size


def page(title: str, body: Iterable[str]) -> str:
    """The whole file; `body` is HTML."""
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{STYLE}</style></head>'
        f"<body><main>{''.join(body)}</main></body></html>\n"
    )


def fact_lists(facts: dict[str, Any]) -> str:
    """The machine and the versions, as `kcore.report.machine.facts` gives them."""
    machine = facts.get("machine", {}) | {"memory": size(facts.get("machine", {}).get("memory_bytes"))}
    machine.pop("memory_bytes", None)
    versions = facts.get("versions", {}) | ({"java": facts["java"]} if facts.get("java") else {})
    return f'<div class="facts">{_fact_list("Machine", machine)}{_fact_list("Versions", versions)}</div>'


def _fact_list(title: str, facts: dict[str, Any]) -> str:
    items = "".join(f"<dt>{escape(key)}</dt><dd>{escape(str(value))}</dd>" for key, value in facts.items())
    return f"<section><h3>{title}</h3><dl>{items}</dl></section>"


def html_table(head: Iterable[str], rows: Iterable[tuple[Sequence[str], bool]]) -> str:
    """Cells as text; a row with True begins a group."""
    names = "".join(f"<th>{escape(name)}</th>" for name in head)
    lines = "".join(
        f"<tr{' class=size' if starts else ''}>{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}</tr>"
        for cells, starts in rows
    )
    return f'<div class="scroll"><table><thead><tr>{names}</tr></thead><tbody>{lines}</tbody></table></div>'


def figure(chart: str, caption: str) -> str:
    """A chart, if there is one, over its caption."""
    return f"<figure>{chart}<figcaption>{escape(caption)}</figcaption></figure>" if chart else ""
