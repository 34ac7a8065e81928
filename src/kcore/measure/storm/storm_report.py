"""A storm's report as one HTML page: when brokers knew the changes, in charts and tables, and how it was measured."""

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any, Final

from kcore.controller.kraft.departures import DEPARTURES
from kcore.measure.processes.kcore_quorum import KCORE_KRAFT
from kcore.measure.report.build import builds_of
from kcore.measure.report.noise import LIMITS, about_the_machine
from kcore.measure.report.report_page import (
    about_the_run,
    beside,
    build_section,
    bullets,
    charts,
    figure,
    html_table,
    navigation,
    page,
    paragraphs,
)
from kcore.measure.report.result_table import ResultTable
from kcore.measure.report.units import duration
from kcore.measure.storm import answer
from kcore.measure.storm import storm_history as history
from kcore.measure.storm.curves import curves_chart
from kcore.measure.storm.kraft.scenarios import ALL as SCENARIOS
from kcore.measure.storm.report_rows import Row, merged, repetitions
from kcore.measure.storm.report_table import (
    COSTS,
    LEGEND,
    TEXT,
    TIMES,
    Columns,
    cells_of,
    curve,
    expected,
    findings,
    sizes_of,
    titles,
    troubles,
)
from kcore.measure.storm.storm_charts import (
    heartbeat_chart,
    heartbeat_lines,
    knowing_chart,
    knowing_lines,
    quantiles,
    timeline,
    work_charts,
)
from kcore.measure.storm.zk.scenarios import SCENARIOS as ZK_SCENARIOS

NOTES: Final = (
    LEGEND,
    "A hollow broker registers, sends heartbeats and fetches the metadata log as a real broker does, and holds no "
    "data. A broker knows a change when it knows that the change is committed. All brokers share this machine with "
    "their load generator; controllers on this machine share its processors, too.",
    "With --master the brokers run in other processes; their times are converted to the driver's clock by the quickest "
    "of many round trips, and clock_ms in the results is the largest possible error.",
    "A repetition is invalid if the load generator itself was late with heartbeats, or if it changed fewer or more "
    "partitions than the state before it allows. An invalid repetition is in no figure, and is named above.",
    "With --repeat every figure of a table is the median over the repetitions of each one's own figure, percentiles "
    "included; min to max is their whole spread. Only errors are added up. Targets take turns within each repetition, "
    "with the same brokers and topics, so that other load on the machine affects all targets.",
    LIMITS,
)
CURVES: Final = (
    "Each line is a controller. Left: the time until the last broker knew the last change, without waiting for "
    "sessions to end; right: the CPU time that the controller took for it. Lines at the points are the spread over "
    "repetitions. The data is in medians.json."
)
OF_KCORE: Final = (
    f"{KCORE_KRAFT} gets the same lines of server.properties as Kafka's controllers, and has the same defaults except "
    "one: Kafka holds a batch back for 25 ms in case more comes (controller.quorum.append.linger.ms), kcore only while "
    "a flush is under way. --heap is only for Java.",
    *(f"Kafka {row.kafka}; kcore {row.kcore}." for row in DEPARTURES.values()),
)


def render(
    rows: Sequence[Row],
    facts: dict[str, Any],
    missing: Sequence[str],
    directory: Path | None = None,
    profile: str = "",
    *,
    is_part: bool = False,
    runs_at: ResultTable | None = None,
) -> str:
    """The page of a run; `missing`: planned scenarios that did not run.

    Earlier runs are in folders beside `directory`, and in the table `runs_at`.

    `profile`: the section on a profile; `is_part`: the storm is a part of a run whose folder contains `directory`.
    """
    together = merged(rows)
    targets = facts.get("targets", [])
    builds = builds_of(rows, "target")
    is_kcore = KCORE_KRAFT in targets or any(build.build == KCORE_KRAFT for build in builds.values())
    notes = (*NOTES, *(OF_KCORE if is_kcore else ()))
    past = history.section(directory, facts, rows, is_part, runs_at)
    scenarios = list(dict.fromkeys(row["scenario"] for row in together))
    curves = _curve(together)
    later = [name for name, text in (("profile", profile), ("history", past)) if text]
    anchors = [*(["curves"] if curves else []), *scenarios, *later, "targets", "plan", "machine", "method"]
    body = [
        "<h1>kcore storm</h1>",
        f'<p class="lead">{escape(facts.get("when", ""))} · {escape(", ".join(targets))}</p>',
        answer.first_screen(rows, facts),
        _verdict(troubles(rows, missing)),
        paragraphs(about_the_machine(facts), "warn"),
        bullets(expected(together), "note"),
        navigation(anchors),
        *(_size(headline, group) for headline, group in sizes_of(together)),
        paragraphs(findings(together)),
        curves,
        *(_scenario(name, rows, together) for name in scenarios),
        profile,
        past,
        build_section(builds),
        f'<h2 id="plan">Plan</h2><pre>{escape(facts.get("plan", ""))}</pre>',
        about_the_run(facts),
        f'<h2 id="method">How it was measured</h2>{paragraphs(notes)}',
    ]
    return page("kcore storm", body)


def section(rows: Sequence[Row], facts: dict[str, Any], missing: Sequence[str], whole_page: str) -> str:
    """The storm's section in the page of a run that the storm is part of; `whole_page`: a link to the storm's page."""
    together = merged(rows)
    parts = [
        '<h2 id="storm">storm</h2>',
        answer.first_screen(rows, facts),
        _verdict(troubles(rows, missing)),
        *(f"<h3>{escape(headline)}</h3>{_table(group, TIMES)}" for headline, group in sizes_of(together)),
        f'<p>All figures, charts and the method: <a href="{escape(whole_page)}">{escape(whole_page)}</a></p>',
    ]
    return "".join(parts)


def _verdict(lines: Sequence[str]) -> str:
    if not lines:
        return paragraphs(["Every scenario ran."], "good")
    return paragraphs(lines, "bad")


def _size(headline: str, rows: Sequence[Row]) -> str:
    """The charts of the work and the tables for clusters of one size."""
    caption = (
        "Work: from the intended moment until the last broker knew the last change; session time-outs of brokers "
        "are not in the points, but in the notes after them. Lines are the spread over repetitions."
    )
    named = zip(titles(rows), (TIMES, COSTS), strict=True)
    tables = [f"<section><h3>{title.capitalize()}</h3>{_table(rows, columns)}</section>" for title, columns in named]
    drawn = beside(*(figure(each) for each in work_charts(rows)), *tables)
    return f"<h2>{escape(headline)}</h2>{paragraphs([caption], 'note')}{drawn}"


def _table(rows: Sequence[Row], columns: Columns) -> str:
    return html_table(*cells_of(rows, columns), TEXT)


def _scenario(name: str, rows: Sequence[Row], together: Sequence[Row]) -> str:
    """The charts of one scenario at the largest size that it ran at."""
    mine = [row for row in together if row["scenario"] == name]
    size = max((row["wanted_partitions"], row["wanted_brokers"]) for row in mine)
    largest = [row for row in mine if (row["wanted_partitions"], row["wanted_brokers"]) == size]
    groups = {
        key[3]: found
        for key, found in repetitions(rows).items()
        if key[:3] == (size[1], size[0], name) and key[3] in {row["target"] for row in largest}
    }
    drawn = [
        figure(timeline(name, largest), numbers=_table(largest, TIMES)),
        figure(knowing_chart(name, groups), _whose(groups), html_table(*quantiles(knowing_lines(groups)))),
        figure(heartbeat_chart(name, groups), numbers=html_table(*quantiles(heartbeat_lines(groups)))),
    ]
    head = f'<h2 id="{name}">{escape(name)}</h2>'
    about = f"{what_of(name)} At {size[1]:,} brokers, {size[0]:,} partitions."
    return f"{head}{paragraphs([about], 'lead')}{charts(drawn)}{_waves(largest)}"


def _waves(rows: Sequence[Row]) -> str:
    """Lists the waves: the times of several changes, or of further parts, of a scenario."""
    found = [f"{row['target']}: {name}: {duration(ms * 1e6)}" for row in rows for name, ms in row["waves_ms"].items()]
    return f"<h3>Waves</h3>{bullets(found)}" if found else ""


def _whose(groups: Mapping[str, Sequence[Row]]) -> str:
    """The caption of `knowing_chart`."""
    brokers = max((len(row["known_ms"]) for rows in groups.values() for row in rows), default=0)
    is_repeated = max(map(len, groups.values()), default=0) > 1
    band = "; the band reaches from the soonest to the latest repetition" if is_repeated else ""
    return f"Each step is one of {brokers:,} brokers in a run{band}."


def what_of(scenario: str) -> str:
    """The first paragraph of a scenario's docstring."""
    found = SCENARIOS.get(scenario) or ZK_SCENARIOS.get(scenario)
    return " ".join((getattr(found, "__doc__", None) or "").split("\n\n")[0].replace("`", "").split())


def _curve(rows: Sequence[Row]) -> str:
    head, lines = curve(rows)
    if not lines:
        return ""
    drawn = figure(curves_chart(rows), CURVES)
    return f'<h2 id="curves">Brokers x partitions</h2>{drawn}{html_table(head, lines, TEXT)}'
