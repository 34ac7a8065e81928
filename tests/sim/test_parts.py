"""Clock, disk and network of a world, each alone."""

from collections import Counter
from random import Random

import pytest

from kcore.sim.clock import Clock
from kcore.sim.disk import SimLog, after_crash
from kcore.sim.network import Network
from kcore.sim.options import draw
from kcore.sim.violation import Violation
from kcore.wire.record_building import encode_records
from kcore.wire.records import Record


def batch(offset: int, epoch: int = 1, value: bytes = b"x") -> bytes:
    return encode_records([Record(offset, 0, None, value)], partition_leader_epoch=epoch)


def written(log: SimLog, count: int) -> SimLog:
    for _ in range(count):
        log.append_as_leader(batch(log.end_offset), 1)
    return log


@pytest.mark.parametrize("drift", [-0.01, 0.0, 0.01])
def test_a_clock_shows_a_time_when_it_says_so(drift: float) -> None:
    clock = Clock(5_000, drift)
    clock.jump(1_234_567, 700)
    for ms in range(7_000, 9_000):
        when_us = clock.when_us(ms)
        assert clock.ms(when_us) == ms and clock.ms(when_us - 2) < ms


def test_an_fsync_covers_what_was_there_when_it_began() -> None:
    log = written(SimLog(), 3)
    log.begin_fsync()
    written(log, 2)
    log.end_fsync()
    assert (log.flushed_end, log.end_offset) == (3, 5)


def test_an_fsync_does_not_cover_what_was_cut_meanwhile() -> None:
    log = written(SimLog(), 3)
    log.begin_fsync()
    log._cut(1)
    log.append_as_leader(batch(1, epoch=2), 2)
    log.end_fsync()
    assert log.flushed_end == 1


def test_a_crash_leaves_what_was_flushed_and_perhaps_more() -> None:
    log = written(SimLog(), 3)
    log.begin_fsync()
    log.end_fsync()
    written(log, 4)
    random = Random(1)
    fates: dict[str, set[int]] = {}
    for _ in range(300):
        survivor, fate = after_crash(log, random)
        fates.setdefault(fate, set()).add(survivor.end_offset)
        assert list(survivor.batches) == list(log.batches[: survivor.end_offset])
        assert survivor.flushed_end == survivor.end_offset
    some = {3, 4, 5, 6}
    assert fates == {
        "tail lost": {3},
        "tail kept": {7},
        "tail lost in part": some,
        "torn write": some,
        "bit flip": some,
    }


def test_one_offset_of_one_epoch_has_one_batch_in_the_world() -> None:
    log, other = written(SimLog(), 2), SimLog()
    other.written = log.written
    other.append_as_follower(batch(0), 1)
    with pytest.raises(Violation, match="two batches at offset 1 of epoch 1"):
        other.append_as_follower(batch(1, value=b"another"), 1)


def test_a_network_loses_delays_and_duplicates_as_often_as_it_should() -> None:
    options = draw(1, lost=0.1, delayed=0.2, duplicated=0.3, latency_us=100)
    network = Network(options, 2, Random(1))
    copies: Counter[int] = Counter()
    late = 0
    for _ in range(10_000):
        delays_us = network.delays_us(0, 1)
        copies[len(delays_us)] += 1
        late += any(delay_us > 200 for delay_us in delays_us)
    assert 900 < copies[0] < 1_100 and 2_800 < copies[2] < 3_200 and 4_700 < late < 5_300


def test_a_cut_is_one_way_and_ends_with_healing() -> None:
    network = Network(draw(1, lost=0.0, delayed=0.0, duplicated=0.0), 2, Random(1))
    network.cuts[0][1] += 1
    network.slowness_us[1][0] = 1_000_000
    assert network.delays_us(0, 1) == () and network.delays_us(1, 0) > (1_000_000,)
    network.lost_more = 1.0
    assert network.delays_us(1, 0) == ()
    network.be_reliable()
    assert len(network.delays_us(0, 1)) == len(network.delays_us(1, 0)) == 1
