"""Answers the question of a storm's page: the time of each controller as a multiple of another controller's.

A ratio divides the medians of the valid repetitions; its spread covers the ratios within each repetition. The
ratio of the medians always lies inside this spread. Without valid repetitions there is no ratio, and no answer.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, Final

from kcore.measure.hollow.histograms import NOT_KNOWN
from kcore.measure.report.charts import Axis
from kcore.measure.report.dots import Dot, dot_chart
from kcore.measure.report.noise import spread
from kcore.measure.report.palette import color_of, marker_of
from kcore.measure.report.report_page import Cell, Mark, Marked, answer, beside, figure, html_table, paragraphs
from kcore.measure.report.units import duration, three_digits
from kcore.measure.storm.curves import name_of
from kcore.measure.storm.phases import work_ms
from kcore.measure.storm.report_rows import KEY, Row, is_good, why_left_out

UNTIL: Final = {
    "register": "all brokers are registered and know it",
    "create": "the last broker knows all new topics",
    "failover": "another controller leads and the last broker knows it",
    "broker-lost": "the last broker knows who leads a lost broker's partitions",
    "rack-lost": "the last broker knows who leads a lost rack's partitions",
    "broker-back": "the last broker knows that a lost broker is back",
    "controlled-shutdown": "the last broker knows the leaders that a stopping broker gave up",
    "bounce": "the last broker knows that a killed broker is back",
    "rolling-restart": "the last broker knows the last change of a rolling restart",
    "preferred-election": "the last broker knows the preferred leaders",
    "isr-storm": "the last broker knows the changed ISRs",
    "reassign": "the last broker knows a broker's moved replicas",
    "assign": "the last broker knows the assigned directories",
    "dir-lost": "the last broker knows who leads a failed directory's partitions",
    "delete-topics": "the last broker knows the deleted topics",
    "controller-killed": "the last broker knows the first change after a killed controller",
    "standby-takes-over": "the last broker knows the first change after a standby took over",
}
"""By scenario, the event that ends its timed interval."""
_FIRST_SCENARIO: Final = "broker-lost"
_ALWAYS: Final = ("register", "create")  # Every storm runs these first: the answer prefers other scenarios.
_NS: Final = 1e6  # Nanoseconds in a millisecond.
_LEAST_MS: Final = 1e-3  # Shorter work gets no ratio.


@dataclass(frozen=True, slots=True)
class Measured:
    """A scenario on a target at one size: the controllers' work in ms by repetition, and reasons for exclusions."""

    scenario: str
    target: str
    works: Mapping[int, float]
    invalid: Sequence[str]
    build: str = ""  # The target without its label; empty if the results do not say it.

    @property
    def median(self) -> float:
        return median(self.works.values())

    @property
    def marks(self) -> list[Mark]:
        """The mark "invalid" if repetitions do not count, and the mark "noisy" by the limits of the reports."""
        count = len(self.works) + len(self.invalid)
        name = f"{len(self.invalid)} of {count} repetitions do not count: {'; '.join(dict.fromkeys(self.invalid))}"
        found = [Mark("invalid", name)] if self.invalid else []
        why = ["a single repetition"] if len(self.works) == 1 else []
        why += spread([ms * _NS for ms in self.works.values()]).noise if len(self.works) > 1 else []
        return [*found, *([Mark("noisy", "; ".join(why))] if why else [])]


@dataclass(frozen=True, slots=True)
class Ratio:
    """One target's work divided by another target's work in the same scenario."""

    mine: Measured
    base: Measured

    @property
    def value(self) -> float | None:
        """The ratio of the medians; None if a target has no valid repetition, or the base no work."""
        if not self.mine.works or not self.base.works or self.base.median < _LEAST_MS:
            return None
        return self.mine.median / self.base.median

    @property
    def spread(self) -> tuple[float, float] | None:
        """The least and the greatest ratio in a repetition that is valid on both targets; None for fewer than two."""
        both = self.mine.works.keys() & self.base.works.keys()
        ratios = [self.mine.works[at] / self.base.works[at] for at in both if self.base.works[at] >= _LEAST_MS]
        return (min(ratios), max(ratios)) if len(ratios) > 1 else None

    @property
    def marks(self) -> list[Mark]:
        """The marks of both targets: one for each word, with all reasons."""
        reasons: dict[str, list[str]] = {}
        for each in (self.base, self.mine):
            for mark in each.marks:
                reasons.setdefault(mark.word, []).append(f"{each.target}: {mark.why}")
        return [Mark(word, "\n".join(why)) for word, why in reasons.items()]


def measured(rows: Sequence[Row]) -> list[Measured]:
    """The scenarios at their largest size, in the order of the rows, without scenarios that change nothing."""
    sizes: dict[str, tuple[int, int]] = {}
    for row in rows:
        size = row["wanted_partitions"], row["wanted_brokers"]
        sizes[row["scenario"]] = max(size, sizes.get(row["scenario"], size))
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        if (row["wanted_partitions"], row["wanted_brokers"]) == sizes[row["scenario"]]:
            groups.setdefault(tuple(row[name] for name in KEY), []).append(row)
    found = []
    for (_, _, scenario, target), group in groups.items():
        build = next((row["build"] for row in group if row.get("build")), "")
        works = {row["repetition"]: work_ms(row) for row in group if is_good(row) and work_ms(row) != NOT_KNOWN}
        invalid = [why_left_out(row) for row in group if not is_good(row)]
        if works or invalid:
            found.append(Measured(scenario, target, works, invalid, build))
    return found


def base_of(target: str, builds: Mapping[str, str]) -> str | None:
    """The target to compare `target` with; None if `target` itself is the one that the others are compared with.

    It is the first Kafka of the same mode, or else the first Kafka, or else the first target. `builds`: each
    target without its label.
    """
    others = [each for each, build in builds.items() if build.startswith("kafka")] or [*builds][:1]
    same_mode = [each for each in others if _in_zookeeper(builds[each]) == _in_zookeeper(builds[target])]
    base = (same_mode or others)[0]
    return None if base == target else base


def _in_zookeeper(build: str) -> bool:
    return build.endswith("-zk") or build.startswith("kafka-zk:")


def ratios_of(found: Sequence[Measured]) -> list[Ratio]:
    """The ratio of each target to its base, by scenario."""
    builds = {each.target: each.build or each.target for each in found}
    by_name = {(each.scenario, each.target): each for each in found}
    ratios = []
    for each in found:
        base = by_name.get((each.scenario, base_of(each.target, builds) or ""))
        if base is not None:
            ratios.append(Ratio(each, base))
    return ratios


def main_scenario(scenarios: Sequence[str]) -> str | None:
    """The scenario that the page's answer is about; None without scenarios."""
    if _FIRST_SCENARIO in scenarios:
        return _FIRST_SCENARIO
    return next((name for name in scenarios if name not in _ALWAYS), next(iter(scenarios), None))


def until(scenario: str) -> str:
    """The end of the timed interval, in words."""
    return UNTIL.get(scenario, f"the last broker knows the last change of {scenario}")


def titled(target: str, facts: Mapping[str, Any]) -> str:
    """The name of a target with its version."""
    version = facts.get("versions", {}).get("kcore")
    name = name_of(target)
    return name.replace("kcore", f"kcore {version}", 1) if version and name.startswith("kcore") else name


def sentences(rows: Sequence[Row], facts: Mapping[str, Any]) -> list[tuple[str, list[Mark]]]:
    """A sentence with its marks for each comparison of two targets; if there is none, one for each target."""
    found = measured(rows)
    scenario = main_scenario(list(dict.fromkeys(each.scenario for each in found)))
    if scenario is None:
        return []
    mine = [each for each in found if each.scenario == scenario]
    ratios = ratios_of(mine)
    if ratios:
        return [(_compared(each, facts), each.marks) for each in ratios]
    return [(_alone(each, facts), each.marks) for each in mine]


def _alone(each: Measured, facts: Mapping[str, Any]) -> str:
    if not each.works:
        return f"No answer: no repetition of {each.scenario} on {titled(each.target, facts)} is valid."
    least, most = min(each.works.values()), max(each.works.values())
    count = len(each.works)
    range_text = f" ({duration(least * _NS)} to {duration(most * _NS)} in {count} repetitions)" if count > 1 else ""
    name = titled(each.target, facts)
    return f"{name} needs {duration(each.median * _NS)} until {until(each.scenario)}{range_text}."


def _compared(ratio: Ratio, facts: Mapping[str, Any]) -> str:
    mine, base = titled(ratio.mine.target, facts), titled(ratio.base.target, facts)
    if ratio.value is None:
        without = [titled(each.target, facts) for each in (ratio.base, ratio.mine) if not each.works]
        why = f"no repetition on {' and on '.join(without)} is valid" if without else f"{base} had nothing to do"
        return f"No answer: {why}, in the scenario {ratio.mine.scenario}."
    times = f"{three_digits(ratio.value)} times what {base} needs until {until(ratio.mine.scenario)}"
    if ratio.spread is None:
        is_one = len(ratio.mine.works) == len(ratio.base.works) == 1
        few = "one repetition each" if is_one else "fewer than two repetitions count on both"
        return f"{mine} needs {times} ({few}, which says little about the next one)."
    low, high = (three_digits(each) for each in ratio.spread)
    if ratio.spread[0] <= 1 <= ratio.spread[1]:
        return (
            f"No difference is shown between {mine} and {base} until {until(ratio.mine.scenario)}: the ratio is "
            f"{three_digits(ratio.value)}, and repetitions lie on both sides of 1, from {low} to {high}."
        )
    return f"{mine} needs {times} ({low} to {high} over the repetitions)."


def first_screen(rows: Sequence[Row], facts: Mapping[str, Any]) -> str:
    """The sentences, and every ratio with its spread and marks, as a chart and a table."""
    parts = [
        answer(text, marks, "bad" if text.startswith("No answer") else "") for text, marks in sentences(rows, facts)
    ]
    ratios = ratios_of(measured(rows))
    if ratios:
        brokers, partitions = (max(row[name] for row in rows) for name in ("wanted_brokers", "wanted_partitions"))
        about = (
            "Ratios of the controllers' work, without session time-outs: the ratio of the medians, and the least and "
            f"greatest one within a repetition; each scenario at its largest size, up to {brokers:,} brokers and "
            f"{partitions:,} partitions."
        )
        parts += [paragraphs([about], "note"), beside(_table(ratios, facts), figure(ratio_chart(ratios, facts)))]
    return "".join(parts)


def _table(ratios: Sequence[Ratio], facts: Mapping[str, Any]) -> str:
    head = ("until", "controller", "compared with", "its work", "work of the other", "ratio", "least to greatest")
    lines: list[tuple[Sequence[Cell], bool]] = []
    for each in ratios:
        works = (duration(side.median * _NS) if side.works else "" for side in (each.mine, each.base))
        between = "" if each.spread is None else f"{three_digits(each.spread[0])} to {three_digits(each.spread[1])}"
        value = "none" if each.value is None else f"{three_digits(each.value)}x"
        names = (titled(each.mine.target, facts), titled(each.base.target, facts))
        lines.append(((until(each.mine.scenario), *names, *works, Marked(value, each.marks), between), False))
    return html_table(head, lines, ("until", "controller", "compared with"))


def ratio_chart(ratios: Sequence[Ratio], facts: Mapping[str, Any]) -> str:
    """Points on a logarithmic axis, with a line at 1; a scenario without a ratio has no point."""
    targets = list(dict.fromkeys(each.mine.target for each in ratios))
    dots, label = [], ""
    for each in ratios:
        if not each.value:
            continue
        spread_of, scenario, target = each.spread, each.mine.scenario, each.mine.target
        tip = f"{scenario}: {target} over {each.base.target}: {three_digits(each.value)}x"
        low_end = max(spread_of[0], each.value * 1e-3) if spread_of else 0.0  # The logarithmic axis has no 0.
        ends = (low_end, spread_of[1]) if spread_of else None
        note, words = f"{three_digits(each.value)}x", [mark.word for mark in each.marks]
        color, marker = color_of(target), marker_of(target, targets)
        dots.append(Dot("" if scenario == label else scenario, each.value, color, tip, note, ends, marker, words))
        label = scenario
    bases = list(dict.fromkeys(titled(each.base.target, facts) for each in ratios))
    legend = {titled(name, facts): (color_of(name), marker_of(name, targets)) for name in targets}
    axis = Axis(f"times what {' or '.join(bases)} needs, log", lambda value: f"{value:g}x", log=True)
    return dot_chart("Work divided by the other controller's", dots, axis, legend=legend, line=(1.0, "as long"))
