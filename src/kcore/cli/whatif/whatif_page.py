"""The page of `kcore whatif`: the answer's tables, a heat map of pairs of brokers, and a map of racks."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from kcore.cli.whatif.whatif_answers import Answer
from kcore.extras import needs
from kcore.measure.report.palette import BAD, INK, PAGE, RULE
from kcore.measure.report.report_page import (
    about_the_run,
    answer,
    charts,
    figure,
    html_table,
    navigation,
    page,
    paragraphs,
)
from kcore.measure.report.svg import Chart, draw
from kcore.types import Int64s
from kcore.whatif import Outcome, PairOutcomes

with needs("report"):
    from matplotlib.patches import Rectangle

_MOST_CELLS: Final = 60  # Rows and columns of the heat map; a cell of a larger cluster has several brokers.
_MOST_NAMED: Final = 25  # Squares of a rack that have their broker's id.
_MOST_ROWS: Final = 300  # Rows of a table; the results have all.
_FAINTEST: Final = 0.15  # The opacity of the least value that is not 0.
_DARK: Final = 0.5  # Squares with a larger share have light letters.
_WIDE: Final = 7.5  # Inches.


def render(given: Answer, facts: dict[str, Any]) -> str:
    """The page of an answer."""
    first, *others = given.sentences
    drawn = _charts(given)
    tables = [
        f"<h3>{table.title}</h3>" * bool(table.title)
        + html_table(table.head, [(row, False) for row in table.rows[:_MOST_ROWS]])
        for table in given.tables
    ]
    body = [
        "<h1>kcore whatif</h1>",
        answer(first),
        paragraphs(others),
        navigation([*(["maps"] if drawn else []), "numbers", "machine"]),
        f'<h2 id="maps">Maps</h2>{drawn}' if drawn else "",
        f'<h2 id="numbers">Numbers</h2>{"".join(tables)}',
        about_the_run(facts),
    ]
    return page("kcore whatif", body)


def _charts(given: Answer) -> str:
    if given.pairs is not None:
        return charts(
            figure(heat_map(f"Pairs of brokers: partitions {name}", given.pairs, _added(given, kind)), _CAPTION)
            for kind, name in (("without_leader", "without a leader"), ("under_min_isr", "under min ISR"))
        )
    single = [each for each in given.outcomes if len(each.scenario.brokers) == 1 and each.scenario.racks == ()]
    if not single:
        return ""
    brokers = given.asked.cluster.table.brokers
    racks = {int(brokers.ids[row]): brokers.racks[row] or "no rack" for row in range(len(brokers))}
    return charts([figure(rack_map(single, racks), _RACKS_CAPTION)])


def _added(given: Answer, kind: str) -> Int64s:
    """How many partitions more than now are in the state after the loss of each pair."""
    assert given.pairs is not None
    added: Int64s = np.maximum(given.pairs.counts(kind) - getattr(given.asked.health, kind), 0)
    return added


_CAPTION: Final = "The darker a cell, the more partitions. A cell of a large cluster has the worst of its pairs."

_RACKS_CAPTION: Final = (
    "A square is a broker. The darker it is, the more partitions are without a leader or under min ISR after its loss."
)


def heat_map(title: str, pairs: PairOutcomes, counts__n: Int64s) -> str:
    """A cell for each pair of brokers, or for each two ranges of brokers; empty if no pair harms a partition."""
    ids = np.unique(pairs.brokers__n2)
    width = max(1, -(-len(ids) // _MOST_CELLS))
    places = np.searchsorted(ids, pairs.brokers__n2) // width
    cells: Int64s = np.zeros((-(-len(ids) // width),) * 2, np.int64)
    np.maximum.at(cells, (places[:, 0], places[:, 1]), counts__n)
    most = int(cells.max(initial=0))
    if not most:
        return ""

    def body(chart: Chart) -> None:
        for one, two in np.argwhere(cells).tolist():
            count = int(cells[one, two])
            names = " and ".join(_range(ids, place, width) for place in (one, two))
            _square(chart, two, one, count / most, f"brokers {names}\n{count:,} partitions")
        chart.axis.set(xlim=(0, len(cells)), ylim=(len(cells), 0), xlabel="broker", ylabel="broker")
        at = np.linspace(0, len(cells) - 1, min(len(cells), 8)).astype(int)
        labels = [str(ids[place * width]) for place in at.tolist()]
        chart.axis.set_xticks(at + 0.5, labels)
        chart.axis.set_yticks(at + 0.5, labels)

    return draw(f"{title} (darkest: {most:,})", _WIDE, body, _WIDE)


def _range(ids: Any, place: int, width: int) -> str:
    members = ids[place * width : (place + 1) * width]
    return str(members[0]) if len(members) == 1 else f"{members[0]} to {members[-1]}"


def rack_map(outcomes: Sequence[Outcome], racks: dict[int, str]) -> str:
    """A line for each rack with a square for each broker, coloured by the partitions that its loss harms."""
    harm = {each.scenario.brokers[0]: each.new_without_leader + each.new_under_min_isr for each in outcomes}
    names = sorted({racks[broker] for broker in harm})
    most = max(harm.values())
    members = {name: sorted(broker for broker in harm if racks[broker] == name) for name in names}
    widest = max(map(len, members.values()))

    def body(chart: Chart) -> None:
        for line, name in enumerate(names):
            for place, broker in enumerate(members[name]):
                text = f"broker {broker}, {name}\n{harm[broker]:,} partitions without a leader or under min ISR"
                share = harm[broker] / (most or 1)
                _square(chart, place, line, share, text)
                if widest <= _MOST_NAMED:
                    color = PAGE if share > _DARK else INK
                    chart.axis.text(place + 0.5, line + 0.5, str(broker), ha="center", va="center", color=color)
        chart.axis.set(xlim=(0, widest), ylim=(len(names), 0), xlabel="brokers of the rack", xticks=[])
        chart.axis.set_yticks(np.arange(len(names)) + 0.5, names)

    return draw(f"Racks: the loss of each broker (darkest: {most:,} partitions)", 1.2 + 0.3 * len(names), body, _WIDE)


def _square(chart: Chart, x: float, y: float, share: float, tip: str) -> None:
    color = BAD if share else RULE
    opacity = _FAINTEST + (1 - _FAINTEST) * share if share else 1.0
    chart.tip(chart.axis.add_patch(Rectangle((x + 0.05, y + 0.05), 0.9, 0.9, color=color, alpha=opacity, lw=0)), tip)
