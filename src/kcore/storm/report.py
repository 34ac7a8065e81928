"""A storm as one self-contained HTML page: tables, the curve, and the limits of the figures."""

from collections.abc import Sequence
from html import escape
from typing import Any, Final

from matplotlib import rc_context

from kcore.controller.kraft.departures import DEPARTURES
from kcore.processes.kcore_quorum import KCORE_KRAFT
from kcore.report.page import fact_lists, figure, html_table, page
from kcore.report.svg import MARKERS, SERIES, STYLE, panels, plain_ticks, svg
from kcore.storm.report_rows import Row, merged
from kcore.storm.report_table import LEGEND, cells_of, curve, findings, sizes_of, troubles

NOTES: Final = (
    LEGEND,
    "A hollow broker registers, heartbeats and fetches the metadata log as a real one does, and holds no data. A "
    "change is known to a broker when the broker knows that it is committed. All brokers share this machine with "
    "their load generator; where the controllers run on it too, they share its processors.",
    "With --master the brokers live in other processes; their times are put on the driver's clock by the quickest of "
    "many round trips, and clock_ms in the results says by how much they may be off.",
    "A run in which the load generator itself was late with heartbeats measures the wrong thing and is marked "
    "invalid. Percentiles of repetitions are those of all their samples together.",
)
OF_KCORE: Final = (
    f"{KCORE_KRAFT} gets the same lines of server.properties as Kafka's controllers, and has the same defaults but for "
    "one: Kafka holds a batch back for 25 ms in case more comes (controller.quorum.append.linger.ms), kcore only while "
    "a flush is under way. --heap is for Java alone.",
    *(f"Kafka {row.kafka}; kcore {row.kcore}." for row in DEPARTURES.values()),
)
_NS: Final = 1e6  # in a millisecond
_LINES: Final = ("-", "--", ":", "-.")


def render(rows: Sequence[Row], facts: dict[str, Any], missing: Sequence[str]) -> str:
    """The page for all rows of a run; `missing`: what was to run and did not."""
    together = merged(rows)
    targets = facts.get("targets", [])
    notes = (*NOTES, *(OF_KCORE if KCORE_KRAFT in targets else ()))
    body = [
        "<h1>kcore storm</h1>",
        f'<p class="lead">{escape(facts.get("when", ""))} · {escape(", ".join(targets))}</p>',
        _verdict(troubles(rows, missing)),
        fact_lists(facts),
        *(f"<h2>{escape(headline)}</h2>{html_table(*cells_of(group))}" for headline, group in sizes_of(together)),
        *(f"<p>{escape(line)}</p>" for line in findings(together)),
        _curve(together),
        f'<h2 id="plan">Plan</h2><pre>{escape(facts.get("plan", ""))}</pre>',
        f'<h2 id="method">How it was measured</h2>{"".join(f"<p>{escape(note)}</p>" for note in notes)}',
    ]
    return page("kcore storm", body)


def _verdict(lines: Sequence[str]) -> str:
    if not lines:
        return '<p class="good">Every scenario ran.</p>'
    return "".join(f'<p class="bad">{escape(line)}</p>' for line in lines)


def _curve(rows: Sequence[Row]) -> str:
    head, lines = curve(rows)
    if not lines:
        return ""
    caption = "Time from the intended moment until the last broker knew the last change."
    return f"<h2>Brokers x partitions</h2>{html_table(head, lines)}{figure(curve_chart(rows), caption)}"


def curve_chart(rows: Sequence[Row]) -> str:
    """A panel a scenario: time to the last broker against partitions, a line a count of brokers and target."""
    timed = [row for row in rows if row["last_ms"] > 0]
    scenarios = list(dict.fromkeys(row["scenario"] for row in timed))
    targets = list(dict.fromkeys(row["target"] for row in timed))
    brokers = sorted({row["wanted_brokers"] for row in timed})
    if not timed:
        return ""
    columns = min(2, len(scenarios))
    with rc_context(STYLE):
        drawn, axes = panels(-(-len(scenarios) // columns), columns)
        for axis in axes.flat[len(scenarios) :]:
            axis.set_axis_off()
        for axis, scenario in zip(axes.flat, scenarios, strict=False):
            chosen = [row for row in timed if row["scenario"] == scenario]
            for name, count in dict.fromkeys((row["target"], row["wanted_brokers"]) for row in chosen):
                line = [row for row in chosen if (row["target"], row["wanted_brokers"]) == (name, count)]
                line.sort(key=lambda row: int(row["wanted_partitions"]))
                axis.plot(
                    [row["wanted_partitions"] for row in line],
                    [row["last_ms"] * _NS for row in line],
                    color=SERIES[brokers.index(count) % len(SERIES)],
                    ls=_LINES[targets.index(name) % len(_LINES)],
                    marker=MARKERS[brokers.index(count) % len(MARKERS)],
                    label=f"{count:,} brokers" + (f", {name}" if len(targets) > 1 else ""),
                )
            axis.set(xscale="log", yscale="log", xlabel="partitions", ylabel="until the last broker knows")
            axis.set_title(scenario)
            plain_ticks(axis, [row["wanted_partitions"] for row in chosen])
            axis.legend()
        return svg(drawn, "time until the last broker knows, against partitions")
