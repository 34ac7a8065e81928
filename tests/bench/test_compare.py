import json
import re
from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console

from kcore.measure.bench import compare_page, compare_views
from kcore.measure.bench.bench_results import Summary, summarise
from kcore.measure.bench.compare import Comparison, Thresholds, compare, remarks_on, unknown_names
from kcore.measure.report import noise
from kcore.measure.report.exits import Exit
from workloads.fakes import row


def run(**given: Any) -> list[Summary]:
    return summarise([row(**given), row(operation="other", samples_ns=[50])])


@pytest.mark.parametrize(
    ("samples_ns", "is_regression"),
    [
        ([100, 200, 300], False),
        ([124, 248, 300], False),
        ([126, 252, 300], True),
        ([100, 900, 900], False),  # The best is as good: noise.
        ([190, 200, 900], False),  # The median is as good: no luck this time.
        ([1, 2, 3], False),
    ],
)
def test_slower_in_best_and_median_is_a_regression(samples_ns: list[int], is_regression: bool):
    found = compare(run(), run(samples_ns=samples_ns), threshold=1.25)
    assert [pair.new.operation for pair in found.regressions] == ["numbers: sort"] * is_regression
    assert found.exit is (Exit.FAILED if is_regression else Exit.GOOD)


def test_the_threshold_decides():
    assert compare(run(), run(samples_ns=[150, 300, 450]), threshold=1.6).exit is Exit.GOOD
    assert compare(run(), run(samples_ns=[150, 300, 450]), threshold=1.4).exit is Exit.FAILED


def test_cells_that_are_gone_or_compute_something_else_do_not_compare():
    gone = compare(run(), run()[:1])
    assert gone.only_old == ["codec / other / 100 partitions / 10 brokers"]
    assert gone.exit is Exit.INVALID
    assert compare(run(), run(digest="bb")).exit is Exit.INVALID
    assert compare([], run()).exit is Exit.INVALID


def test_new_cells_are_named_and_forgiven():
    found = compare(run()[:1], run())
    assert found.only_new == ["codec / other / 100 partitions / 10 brokers"]
    assert found.exit is Exit.GOOD


def mixed() -> Comparison:
    """One operation slower, one faster, one as it was, one new."""
    old = [row(operation=name) for name in ("a: slow", "a: fast", "a: same")]
    new = [
        row(operation="a: slow", samples_ns=[131, 262, 400]),
        row(operation="a: fast", samples_ns=[50, 100, 150]),
        row(operation="a: same"),
        row(operation="a: |new|"),
    ]
    return compare(summarise(old), summarise(new))


def shown(comparison: Comparison, everything: bool = False) -> str:
    console = Console(width=160, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    compare_views.show(console, comparison, everything)
    return console.export_text()


def test_the_verdict_is_one_line_and_comes_first():
    found = mixed()
    assert found.verdict == "slower: 1 of 3 operations, up to 1.31x; faster: 1, up to 2.00x; the rest within the rule"
    assert shown(found).splitlines()[:2] == [found.verdict, found.rule]
    assert "1.25" in found.rule
    assert compare(run(), run()).verdict == "none of 2 operations is slower; all within the rule"
    assert compare([], run()).verdict == "no verdict: the runs have no operation in common"
    assert compare(run(), run()[:1]).verdict == "no verdict: 1 of the old run missing; 1 operation compared"
    assert compare(run(), run(digest="bb")).verdict == "no verdict: 1 with another result; 2 operations compared"


def test_what_changed_is_shown_and_the_rest_if_asked():
    text, whole = shown(mixed()), shown(mixed(), everything=True)
    assert "a: slow" in text and "a: fast" in text and "a: same" not in text and "|new|" not in text
    assert "new: 1 operations in the new run only: --all names them" in text
    assert "1 within the rule are not shown: --all" in text
    assert "a: same" in whole and "new: codec / a: |new| / 100 partitions" in whole and "--all" not in whole


def test_missing_operations_are_named_as_far_as_they_are_few():
    old = summarise([row(operation=f"a: {at}") for at in range(30)])
    text = shown(compare(old, old[:1]))
    assert text.count("in the old run only") == 10 and "missing: 19 more operations: --all names them" in text
    assert shown(compare(old, old[:1]), everything=True).count("in the old run only") == 29


def test_markdown_is_a_comment_for_a_pull_request():
    text = compare_views.as_markdown(mixed())
    assert text.startswith("**\u274c kcore compare: slower: 1 of 3 operations")
    assert "| operation | old median | new median |" in text and "| :-- | --: | --: |" in text
    assert "| codec / a: slow / 100 partitions / 10 brokers | 200 ns | 262 ns | 1.31x | 1.31x | slower |" in text
    assert text.index("<details><summary>1 within the rule</summary>") < text.index("a: same")
    assert "<details>" not in compare_views.as_markdown(mixed(), everything=True)
    assert r"\|new\|" in compare_views.as_markdown(compare(mixed_new(), mixed_new()), everything=True)


def mixed_new() -> list[Summary]:
    return summarise([row(operation="a: |new|")])


def test_json_says_it_all():
    printed = json.loads(compare_views.as_json(mixed()))
    assert (printed["exit"], printed["threshold"], printed["missing"]) == (1, 1.25, [])
    assert [each["verdict"] for each in printed["operations"]] == ["slower", "faster", "within the rule"]
    assert printed["operations"][0]["median_ratio"] == 1.31
    assert printed["operations"][2]["old_interval_ns"] == [100, 300]


def test_the_page_has_the_verdict_the_rule_and_all_ratios():
    page = compare_page.as_html(mixed(), ("monday", "<tuesday>"))
    assert "monday" in page and "&lt;tuesday&gt;" in page
    assert 'class="answer bad">slower: 1 of 3' in page and 'aria-label="codec"' in page
    assert page.index("slower: 1 of 3") < page.index("Slower: the smaller") < page.index("<table")
    assert '<tr class="bad">' in page and '<tr class="good">' in page
    assert "a: |new|" in page


def test_the_ticks_of_the_ratios_do_not_touch():
    old, new = run(samples_ns=[100_000]), run(samples_ns=[2_000])
    svg = re.search(r"<svg.*?</svg>", compare_page.as_html(compare(old, new), ("a", "b")), re.DOTALL)
    ticks = [float(text) for text in re.findall(r">([\d.]+)x<", svg[0] if svg else "")]
    assert 1.0 in ticks and 0.02 in ticks and 0.9 not in ticks and len(ticks) <= 10


def test_noise_of_either_run_stands_beside_its_figures():
    noisy = summarise([row(samples_ns=[100] * 90 + [900] * 10), row(operation="other", samples_ns=[50])])
    found = compare(run(), noisy)
    [pair, _] = found.pairs
    page = compare_page.as_html(found, ("a", "b"))
    assert f'<span class="mark noisy" title="{pair.noise}">noisy</span>' in page and f">{pair.noise}<" not in page
    assert "9.00 x" not in shown(found, everything=True) and "old, new" in shown(found, everything=True)
    assert pair.noise == "old median is uncertain by 100%; new p99 is 9.00 x median, p99 is 9.00 x min"


def test_runs_of_different_or_busy_machines_are_remarked():
    here = {"machine": {"host": "here", "cores": 2}, "load": {"load_before": 3.0}}
    there = {"machine": {"host": "there", "cores": 2}}
    assert remarks_on(here, there) == [
        "The runs are of different machines: their times do not compare.",
        "The old run: the machine was busy before the run began: a load average of 3.00 on 2 cores.",
    ]
    assert remarks_on(there, there) == []
    assert remarks_on({}, there) == ["The old run does not say on which machine it ran: its times may not compare."]


def test_a_pair_of_runs_that_may_be_swapped_is_remarked():
    first, second = ({"machine": {"host": "here"}, "when": f"2026-01-0{day} 10:00"} for day in (1, 2))
    assert remarks_on(first, second) == remarks_on(first, first) == []
    [line] = remarks_on(second, first)
    assert line == "The old run is later than the new one, 2026-01-02 10:00 and 2026-01-01 10:00: are the two swapped?"


def test_labels_say_which_run_is_judged():
    found = replace(mixed(), labels=("Kafka", "kcore"))
    assert found.rule.startswith("Kafka is the old run, kcore the new one, which is judged. Slower:")
    assert mixed().rule.startswith("Slower:")


FAST, SLOW = 100_000, 300_000


def parts(fast: int, slow: int) -> list[int]:
    return [FAST] * fast + [SLOW] * slow


@pytest.mark.parametrize(
    ("old", "new", "is_doubtful"),
    [
        (parts(20, 0), parts(9, 11), True),  # The median trebled, the best time is as good.
        (parts(20, 0), parts(13, 7), True),  # The median is as good, too.
        (parts(1000, 0), parts(450, 550), True),
        (parts(3, 0), parts(1, 2), True),
        (parts(9, 11), parts(9, 11), False),  # It was so before.
        (parts(20, 0), parts(18, 2), False),  # A tail, which the noise mark names.
        (parts(3, 0), parts(2, 1), False),  # One repetition of three is no part.
        (parts(2, 1), parts(1, 2), False),  # Chance does that half of the time.
        (parts(20, 0), parts(0, 20), False),  # A regression by both ratios.
    ],
)
def test_a_run_that_became_slow_in_a_part_of_its_times_is_doubtful(old: list[int], new: list[int], is_doubtful: bool):
    found = compare(run(samples_ns=old), run(samples_ns=new))
    assert bool(found.doubtful) is is_doubtful
    if is_doubtful:
        assert found.exit is Exit.INVALID and "doubtful (codec / numbers: sort: " in found.verdict
        assert "none of" not in found.verdict and "within the rule" not in found.verdict
        for text in (shown(found), compare_views.as_markdown(found), compare_page.as_html(found, ("a", "b"))):
            assert "doubtful" in text and "of the new times are above 1.25 times the old median" in text
        assert json.loads(compare_views.as_json(found))["operations"][0]["verdict"] == "doubtful"


def test_a_part_that_became_fast_is_named_and_no_reason_to_fail():
    found = compare(run(samples_ns=parts(9, 11)), run(samples_ns=parts(20, 0)))
    assert found.exit is Exit.GOOD and "faster in a part of the times: 1" in found.verdict
    assert "partly faster" in shown(found)


def test_chance_is_that_of_all_ways_to_draw_the_samples():
    assert noise.chance(0, 3, 3, 3) == pytest.approx(1 / 20) and noise.chance(2, 4, 2, 4) > 0.5
    assert noise.chance(0, 5, 0, 5) == 1.0


@pytest.mark.parametrize("new", [[], run()[:1], run(digest="bb"), run(samples_ns=parts(9, 11))])
def test_without_a_verdict_nothing_says_that_nothing_changed(new: list[Summary]):
    found = compare(run(samples_ns=parts(20, 0)), new)
    assert found.exit is Exit.INVALID
    for text in (shown(found), compare_views.as_markdown(found), compare_page.as_html(found, ("a", "b"))):
        assert "no verdict" in text and not re.search(r"none of|nothing changed|No operation changed|all within", text)


def test_an_operation_has_the_threshold_of_its_most_exact_name():
    own = Thresholds(1.25, {"codec": 2.0, "numbers": 3.0, "numbers: sort": 4.0, "codec / numbers: sort": 5.0})
    names = [*own.own]
    [sort, other] = run()
    for at in range(4, 0, -1):
        kept = Thresholds(1.25, {name: own.own[name] for name in names[:at]})
        assert kept.of(sort) == kept.own[names[at - 1]] and kept.of(other) == 2.0
    slow = run(samples_ns=[200, 400, 600])
    assert compare(run(), slow, Thresholds(1.25, {"numbers: sort": 2.5})).exit is Exit.GOOD
    assert compare(run(), slow, Thresholds(2.5, {"numbers: sort": 1.5})).exit is Exit.FAILED
    assert own.unknown(run()) == [] and "did you mean 'codec'?" in Thresholds(1.25, {"codex": 2.0}).unknown(run())[0]
    assert "(4 for numbers: sort)" in compare(run(), slow, Thresholds(1.25, {"numbers: sort": 4.0})).rule


def test_operations_that_were_renamed_are_paired_and_both_names_shown():
    old, new = run(operation="numbers: order"), run(samples_ns=[200, 400, 600])
    assert compare(old, new).exit is Exit.INVALID
    names = {"numbers: order": "numbers: sort"}
    found = compare(old, new, names=names)
    assert [pair.old.operation for pair in found.regressions] == ["numbers: order"] and found.only_old == []
    assert "(old: codec / numbers: order)" in shown(found)
    assert unknown_names(old, new, names) == ""
    assert unknown_names(old, new, {"numbers: orders": "other"}) == (
        "the old run has no 'numbers: orders'; did you mean 'numbers: order'?"
    )
    assert "the new run has no" in unknown_names(old, new, {"other": "numbers"})
    assert "cannot become one" in unknown_names(old, new, {"numbers: order": "other", "other": "other"})
