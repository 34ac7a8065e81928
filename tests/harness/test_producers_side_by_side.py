"""Producers of one partition side by side: the oldest open transaction counts, whoever was listed or ended first."""

from itertools import permutations

import pytest

from harness.boundary import check_limit
from kcore.broker.replicas.producers import Producer, Producers, Verification
from kcore.broker.replicas.transactions import Transactions
from kcore.protocol_errors import ApiException
from kcore.wire.record_batch import scan_batches
from kcore.wire.record_building import TRANSACTIONAL
from storage import building

OPEN = {3: 20, 7: 5, 9: 11}  # First offsets of open transactions, by producer.


@pytest.mark.parametrize("order", [*permutations(OPEN)])
def test_a_snapshot_lists_producers_in_any_order(order: tuple[int, ...]) -> None:
    producers = Producers()
    producers.restore({each: Producer(0, transaction_offset=OPEN[each]) for each in order})
    assert producers.last_stable_offset(100, 0) == 5
    assert producers.transactions.end(5, 30) == 11, "the next oldest"
    assert producers.last_stable_offset(31, 0) == 11
    assert producers.transactions.end(20, 32) == 11 and producers.transactions.end(11, 33) == 34
    assert producers.last_stable_offset(100, 0) == 100
    producers.restore({1: Producer(0)})
    assert producers.last_stable_offset(100, 0) == 100, "those of before are forgotten"


def test_a_transaction_is_unstable_until_its_marker_is_committed() -> None:
    """The high watermark is behind the last committed record."""

    def is_unstable(high_watermark: int) -> bool:
        transactions = Transactions()
        transactions.begin(5, 7)
        transactions.end(5, 10)
        return transactions.first_unstable_offset(high_watermark) == 5

    check_limit(is_unstable, 10)


def test_the_oldest_of_ended_and_open_transactions_counts() -> None:
    transactions = Transactions()
    for first_offset in (5, 8, 12):
        transactions.begin(first_offset, first_offset)
    transactions.end(8, 20)
    assert transactions.first_unstable_offset(20) == 5
    transactions.end(5, 25)
    assert transactions.first_unstable_offset(21) == 5, "its marker is not committed"
    assert transactions.first_unstable_offset(26) == 12


def _asked(*sequences: tuple[int, int]) -> Producers:
    producers = Producers()
    for epoch, sequence in sequences:
        assert producers.begin_verification(7, epoch, sequence) is not None
    return producers


@pytest.mark.parametrize(
    ("sequences", "lowest"),
    [
        ([(0, 5)], 5),
        ([(0, 5), (0, 3)], 3),
        ([(0, 3), (0, 5)], 3),
        ([(0, 5), (1, 9)], 9),
        ([(1, 9), (0, 2)], 9),
        ([(1, 9), (1, 9), (0, 2), (1, 4)], 4),
    ],
)
def test_the_lowest_sequence_of_the_newest_epoch_is_written_first(
    sequences: list[tuple[int, int]], lowest: int
) -> None:
    """Whatever the order in which the batches asked."""
    producers = _asked(*sequences)
    epoch = max(epoch for epoch, _ in sequences)
    known: Verification = producers._verifications[7]
    assert (known.epoch, known.lowest_sequence) == (epoch, lowest)

    def takes(first: int) -> bool:
        batch = building.batch(0, producer=(7, epoch, first), attributes=TRANSACTIONAL)
        try:
            producers.check(scan_batches(batch), known.guard)
        except ApiException:
            return False
        return True

    check_limit(takes, lowest)


def test_a_guard_of_one_producer_opens_nothing_for_another() -> None:
    producers = Producers()
    guard = producers.begin_verification(7, 0, 0)
    producers.begin_verification(8, 0, 0)
    batch = building.batch(0, producer=(8, 0, 0), attributes=TRANSACTIONAL)
    with pytest.raises(ApiException):
        producers.check(scan_batches(batch), guard)
    own = producers.begin_verification(8, 0, 0)
    producers.check(scan_batches(batch), own)
