import json
from typing import Any

import pytest
from rich.console import Console

from kcore.bench import compare_page, compare_views
from kcore.bench.compare import Comparison, compare, remarks_on
from kcore.bench.results import Summary, summarise
from kcore.report.exits import Exit
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
    assert compare(run(), run()[:1]).verdict.startswith("no verdict: 1 of the old run missing; none of 1 operation")
    assert compare(run(), run(digest="bb")).verdict.startswith("no verdict: 1 with another result; none of 2")


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
    told = json.loads(compare_views.as_json(mixed()))
    assert (told["exit"], told["threshold"], told["missing"]) == (1, 1.25, [])
    assert [each["verdict"] for each in told["operations"]] == ["slower", "faster", "within the rule"]
    assert told["operations"][0]["median_ratio"] == 1.31
    assert told["operations"][2]["old_interval_ns"] == [100, 300]


def test_the_page_has_the_verdict_the_rule_and_all_ratios():
    page = compare_page.as_html(mixed(), ("monday", "<tuesday>"))
    assert "monday" in page and "&lt;tuesday&gt;" in page
    assert 'class="bad">slower: 1 of 3' in page and 'aria-label="codec"' in page
    assert page.index("slower: 1 of 3") < page.index("Slower: the smaller") < page.index("<table")
    assert '<tr class="bad">' in page and '<tr class="good">' in page
    assert "a: |new|" in page


def test_noise_of_either_run_stands_beside_its_figures():
    noisy = summarise([row(samples_ns=[100] * 90 + [900] * 10), row(operation="other", samples_ns=[50])])
    [pair, _] = compare(run(), noisy).pairs
    assert pair.noise == "old median is known to 100% only; new p99 is 9.00 x median, p99 is 9.00 x min"


def test_runs_of_different_or_busy_machines_are_remarked():
    here = {"machine": {"host": "here", "cores": 2}, "load": {"load_before": 3.0}}
    there = {"machine": {"host": "there", "cores": 2}}
    assert remarks_on(here, there) == [
        "The runs are of different machines: their times do not compare.",
        "The old run: the machine was busy before the run began: a load average of 3.00 on 2 cores.",
    ]
    assert remarks_on(there, there) == [] and remarks_on({}, here)[0].startswith("The new run")
