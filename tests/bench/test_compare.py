from typing import Any

import pytest

from kcore.bench.compare import compare
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
