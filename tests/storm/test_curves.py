"""The chart over sizes: which lines and panels it has, and that nothing is lost or drawn outside."""

import re
from dataclasses import replace
from xml.etree import ElementTree

from kcore.measure.processes.target import Target
from kcore.measure.storm import storm_report as report
from kcore.measure.storm.curves import curves_chart, name_of
from kcore.measure.storm.report_rows import Row, merged, row_of
from kcore.measure.storm.result import ScenarioResult
from kcore.measure.storm.storm_plan import Cell

TARGETS = {"kafka-4.3.1": "Kafka 4.3.1", "kafka-3.9.1-zk": "Kafka 3.9.1 (ZK)", "kcore-zk": "kcore (ZK)"}


def rows(brokers: tuple[int, ...], partitions: tuple[int, ...], repeat: int = 1) -> list[Row]:
    found = []
    for nth in range(repeat):
        for target in TARGETS:
            for count in brokers:
                for size in partitions:
                    ms = 1.0 + nth + size / 100 + count
                    result = ScenarioResult("create", count, size, 1, first_ms=ms / 2, last_ms=ms, controller_cpu_s=ms)
                    cell = Cell(Target.parse(target), count, size, nth)
                    found += [row_of(cell, each, 1) for each in (result, replace(result, scenario="reassign"))]
    return found


def text_of(svg: str) -> list[str]:
    return [each.text or "" for each in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]


def test_one_size_has_no_curve() -> None:
    assert curves_chart(merged(rows((20,), (100,)))) == ""


def test_a_panel_a_scenario_figure_and_number_of_brokers_with_every_line_named_once() -> None:
    svg = curves_chart(merged(rows((20, 200), (100, 1_000))))
    text = text_of(svg)
    for corner in ("time · 20 brokers", "time · 200 brokers", "CPU · 20 brokers", "CPU · 200 brokers"):
        assert text.count(corner) == 2, "one in each of the two scenarios"
    for name in TARGETS.values():
        assert text.count(name) == 4, "in the last panel of time and of CPU, in each of the two scenarios"
    assert text.count("partitions") == 4 and {"create", "reassign"} <= {*text}
    assert all(f"var({name})" in svg for name in ("--kafka", "--kafka-zk", "--kcore-zk")), "a colour a system"


def test_where_only_the_brokers_differ_they_lie_along() -> None:
    text = text_of(curves_chart(merged(rows((20, 200), (100,)))))
    assert "time · 100 partitions" in text and text.count("brokers") == 2


def test_a_mark_tells_its_size_its_median_and_the_spread_of_its_repetitions() -> None:
    svg = curves_chart(merged(rows((20,), (100, 1_000), repeat=3)))
    assert "create on kcore-zk\n20 brokers, 1,000 partitions\ntime: 32.0 ms\n31.0 ms to 33.0 ms in 3 runs" in svg
    assert "CPU: 23.0 s\n22.0 s to 24.0 s in 3 runs" in svg


def test_a_controller_whose_cpu_is_not_known_has_a_line_of_time_alone() -> None:
    found = rows((20,), (100, 1_000))
    for row in found:
        if row["target"] == "kafka-4.3.1":
            row["controller_cpu_s"] = -1.0
    text = text_of(curves_chart(merged(found)))
    assert text.count("Kafka 4.3.1") == 2 and text.count("kcore (ZK)") == 4


def test_names_stay_inside_the_picture_however_close_the_lines_are() -> None:
    found = rows((20,), (100, 1_000))
    svg = curves_chart(merged([row | {"last_ms": 5.0, "first_ms": 1.0} for row in found]))
    height = float(re.findall(r'viewBox="0 0 [\d.]+ ([\d.]+)"', svg)[0])
    assert "nan" not in svg and all(0 <= float(y) <= height for y in re.findall(r' y="(-?[\d.]+)"', svg))


def test_the_page_has_it_once_with_its_data_named() -> None:
    page = report.render(rows((20,), (100, 1_000)), {"targets": list(TARGETS)}, [])
    assert page.count("How the controllers scale with the cluster") == 2, "as text, and for a screen reader"
    assert "<a href=#curves>" in page and "medians.json" in page


def test_targets_are_named_as_a_newcomer_would() -> None:
    assert {target: name_of(target) for target in TARGETS} == TARGETS
    assert (name_of("kcore-kraft"), name_of("here:9093")) == ("kcore", "here:9093")
