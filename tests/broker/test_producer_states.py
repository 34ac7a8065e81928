"""The producers of a log beside Kafka's ProducerStateManager (ProducerStateFacts.java)."""

from pathlib import Path

import pytest

import cases
from broker.producer_logs import emptied, states_of
from kcore.broker.replicas import producers
from kcore.storage.log.live_log import LiveLog
from kcore.wire.record_batch import CONTROL, TRANSACTIONAL, scan_batches
from storage.building import batch

STORIES = cases.load("producer_states_4.3.1")


def test_producers_are_known_as_kafka_knew_them() -> None:
    for number, story in enumerate(STORIES):
        assert states_of([bytes.fromhex(each) for each in story["batches"]]) == story["states"], number


def test_the_recorded_logs_have_empty_batches_of_each_kind() -> None:
    headers = [bytes.fromhex(each) for story in STORIES for each in story["batches"]]
    assert {bool(each[22] & CONTROL) for each in headers if len(each) == 61} == {False, True}


def test_an_empty_control_batch_does_not_change_its_producer() -> None:
    marker = batch(0, [b"\0\0\0\0\0\0"], key=b"\0\0\0\1", attributes=CONTROL | TRANSACTIONAL, producer=(7, 3, -1))
    assert states_of([emptied(marker)]) == [{"": -1, "7": [-1, -1, -1, -1, []]}]


def test_producers_without_sequences_have_none_after_a_restart(tmp_path: Path) -> None:
    """A coordinator's transactional batches."""
    data = batch(0, [b"v"] * 3, attributes=TRANSACTIONAL, producer=(7, 3, -1))
    for _ in range(2):
        with LiveLog(tmp_path / "t-0") as log:
            if log.end_offset == 0:
                log.append(data, scan_batches(data))
            [kept] = log.producers.by_id[7].batches
            assert (kept.first_sequence, kept.last_sequence) == (-1, -1)


def test_the_producers_that_wrote_last_are_known_and_those_in_transactions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client may use a new producer id for each batch: the number of producers is limited."""
    monkeypatch.setattr(producers, "MOST_PRODUCERS", 3, raising=False)
    with LiveLog(tmp_path / "t-0") as log:
        for offset, number in enumerate([1, 2, 3, 4, 5, 3, 6]):
            open_ = TRANSACTIONAL if number == 1 else 0
            data = batch(offset, [b"v"], attributes=open_, producer=(number, 0, 1 if offset == 5 else 0))
            log.append(data, scan_batches(data))
        assert [*log.producers.by_id] == [1, 3, 6]
    with LiveLog(tmp_path / "t-0") as log:
        assert [*log.producers.by_id] == [1, 3, 6], "after a restart"
