"""The first screen of a storm's page: a sentence that answers, or says that there is no answer."""

import re
from dataclasses import replace
from typing import Any

import pytest

from kcore.measure.processes.target import Target
from kcore.measure.storm import answer
from kcore.measure.storm import storm_report as report
from kcore.measure.storm.kraft.scenarios import SCENARIOS
from kcore.measure.storm.report_rows import Row, failed_row, row_of
from kcore.measure.storm.result import ScenarioResult
from kcore.measure.storm.storm_plan import Cell
from kcore.measure.storm.zk.scenarios import SCENARIOS as ZK_SCENARIOS

KAFKA, KCORE = "kafka-4.3.1", "kcore-kraft"
FACTS = {"versions": {"kcore": "0.2.0"}, "targets": [KAFKA, KCORE]}
CELL = Cell(Target.parse(KAFKA), 20, 10_000, 0)


def row(target: str, work_ms: float, repetition: int = 0, scenario: str = "broker-lost", **given: Any) -> Row:
    cell = replace(CELL, target=Target.parse(target), repetition=repetition)
    result = ScenarioResult(scenario, 20, 10_000, 1, last_ms=9_000.0 + work_ms, session_ms=9_000.0)
    return row_of(cell, result, 1) | given


def storm(kafka: list[float], kcore: list[float], **given: Any) -> list[Row]:
    """A row a repetition; `given` is for kcore's."""
    return [row(KAFKA, ms, at) for at, ms in enumerate(kafka)] + [
        row(KCORE, ms, at, **given) for at, ms in enumerate(kcore)
    ]


def sentences(rows: list[Row]) -> list[str]:
    return [text for text, _ in answer.sentences(rows, FACTS)]


def test_the_page_begins_with_the_ratio_and_its_spread_in_one_sentence() -> None:
    rows = storm([200.0, 240.0, 300.0], [14.0, 18.0, 15.0])
    assert sentences(rows) == [
        "kcore 0.2.0 needs 0.0625 times what Kafka 4.3.1 needs until the last broker knows who leads a lost broker's "
        "partitions (0.0500 to 0.0750 over the repetitions)."
    ]
    page = report.render(rows, FACTS | {"machine": {"host": "here"}}, [])
    places = [page.index(part) for part in ('class="answer"', "Work divided by", "20 brokers, 10,000", "<dt>host</dt>")]
    assert places == sorted(places), "the answer first, the machine last"
    assert "up to 20 brokers and 10,000 partitions." in page.split("<h2")[0], "a ratio holds for a size"


def test_the_order_of_the_targets_does_not_turn_the_ratio_round() -> None:
    rows = storm([200.0, 240.0], [20.0, 24.0])
    assert sentences(rows[::-1]) == sentences(rows)


def test_a_target_without_a_valid_repetition_has_no_ratio_and_the_page_says_so() -> None:
    rows = storm([200.0, 240.0], [0.1, 0.1], valid=False, invalid="0 changes, of 900 to 1,100 that it expects")
    assert sentences(rows) == ["No answer: no repetition on kcore 0.2.0 is valid, in the scenario broker-lost."]
    page = report.render(rows, FACTS, [])
    assert 'class="answer bad"' in page and "needs" not in page.split("<h2")[0]
    assert "2 of 2 repetitions do not count: 0 changes, of 900 to 1,100" in page and ">none<span" in page
    failed = [
        *storm([200.0], []),
        failed_row(replace(CELL, target=Target.parse(KCORE)), "broker-lost", 1, 1, "the end"),
    ]
    assert sentences(failed)[0].startswith("No answer: no repetition on kcore 0.2.0")


def test_an_invalid_repetition_is_in_no_ratio_and_is_one_mark() -> None:
    rows = [*storm([200.0, 240.0, 220.0], [20.0, 24.0]), row(KCORE, 0.0, 2, valid=False, invalid="0 changes")]
    [(text, marks)] = answer.sentences(rows, FACTS)
    assert "needs 0.100 times" in text and "(0.100 to 0.100 over" in text
    [invalid] = [mark for mark in marks if mark.word == "invalid"]
    assert invalid.why == "kcore-kraft: 1 of 3 repetitions do not count: 0 changes"


def test_the_reason_of_an_invalid_repetition_is_its_own_and_no_finding_of_the_scenario() -> None:
    odd = row(KCORE, 1.0, 1, valid=False, invalid="0 changes, of 9 to 11", note="a finding")
    page = report.render([*storm([200.0, 210.0], [20.0]), odd], FACTS, [])
    assert "1 of 2 repetitions do not count: 0 changes, of 9 to 11" in page
    assert "load generator was late" not in page.split("<h2")[0] and "not count: a finding" not in page


def test_one_repetition_each_is_said_only_of_one_repetition_each() -> None:
    odd = [row(KCORE, 1.0, at, valid=False, invalid="0 changes") for at in (1, 2)]
    [text] = sentences([*storm([200.0, 240.0, 220.0], [20.0]), *odd])
    assert "one repetition each" not in text and "fewer than two repetitions count on both" in text


def test_repetitions_on_both_sides_of_1_and_single_ones_are_no_claim() -> None:
    assert sentences(storm([200.0, 240.0, 220.0], [180.0, 250.0, 200.0]))[0].startswith(
        "No difference is shown between kcore 0.2.0 and Kafka 4.3.1 until the last broker"
    )
    [(text, marks)] = answer.sentences(storm([200.0], [20.0]), FACTS)
    assert "one repetition each, which says little" in text and [mark.word for mark in marks] == ["noisy"]


def test_the_ratio_of_the_medians_lies_within_the_spread() -> None:
    kafka, kcore = [100.0, 200.0, 900.0], [50.0, 10.0, 800.0]
    [ratio] = answer.ratios_of(answer.measured(storm(kafka, kcore)))
    assert ratio.spread and ratio.value and ratio.spread[0] <= ratio.value <= ratio.spread[1]


def test_a_controller_alone_has_its_time_and_no_ratio() -> None:
    rows = [row(KCORE, ms, at) for at, ms in enumerate([10.0, 12.0])]
    assert sentences(rows) == [
        "kcore 0.2.0 needs 11.0 ms until the last broker knows who leads a lost broker's partitions "
        "(10.0 ms to 12.0 ms in 2 repetitions)."
    ]
    assert "Work divided by" not in report.render(rows, FACTS, [])


def test_controllers_are_compared_within_their_mode() -> None:
    targets = [KCORE, "kcore-zk", KAFKA, "kafka-3.9.1-zk"]
    builds = {each: each for each in targets}
    assert {each: answer.base_of(each, builds) for each in targets} == {
        KCORE: KAFKA, "kcore-zk": "kafka-3.9.1-zk", KAFKA: None, "kafka-3.9.1-zk": None
    }  # fmt: skip
    assert answer.base_of("b:1", {"a:1": "a:1", "b:1": "b:1"}) == "a:1"
    assert answer.base_of("kcore-zk", {"kcore-zk": "kcore-zk", KAFKA: KAFKA}) == KAFKA


def test_the_build_of_a_label_decides_what_others_are_compared_with() -> None:
    builds = {"mine": KCORE, "old": KAFKA, "zk": "kafka-zk:/jars", "ours": "kcore-zk"}
    assert {each: answer.base_of(each, builds) for each in builds} == {
        "mine": "old", "old": None, "zk": None, "ours": "zk"
    }  # fmt: skip
    rows = [row(KCORE, 10.0, 0) | {"target": "mine"}, row(KAFKA, 20.0, 0) | {"target": "old"}]
    [ratio] = answer.ratios_of(answer.measured(rows))
    assert (ratio.mine.target, ratio.base.target, ratio.value) == ("mine", "old", 0.5)


@pytest.mark.parametrize("scenario", sorted({*SCENARIOS, *ZK_SCENARIOS} - {"heartbeat"}))
def test_every_scenario_has_its_end_in_words(scenario: str) -> None:
    assert scenario in answer.UNTIL


def test_a_work_of_nothing_is_drawn_without_a_ratio_of_nothing() -> None:
    page = report.render(
        storm([200.0, 240.0], [0.0, 24.0]) + storm([0.0, 0.0], [5.0, 5.0], scenario="bounce"), FACTS, []
    )
    assert not re.search(r"\bnan\b|\binf\b", page)
