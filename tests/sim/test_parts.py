"""Clock, disk and network of a world, and what is damaged on its way, each alone."""

from collections import Counter
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any

import pytest

from kcore.raft.effects import Flush
from kcore.raft.log.batches import split_batches
from kcore.raft.membership.replicas import ElectionState, ReplicaKey
from kcore.raft.transitions import transitions
from kcore.replication.raft_log import OffsetAndEpoch
from kcore.schema.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from kcore.schema.fetch_snapshot import (
    FetchSnapshotResponse,
    FetchSnapshotResponsePartitionSnapshot,
    FetchSnapshotResponseTopicSnapshot,
    SnapshotId,
)
from kcore.schema.raft_votes import VoteRequest
from kcore.sim.kernel.clock import Clock
from kcore.sim.kernel.file_system import SimFileSystem
from kcore.sim.kernel.network import Network
from kcore.sim.kernel.violation import Violation
from kcore.sim.raft import faults, processes
from kcore.sim.raft.checkers.base import Checker, is_for, only_for
from kcore.sim.raft.coverage import never_seen
from kcore.sim.raft.crash_points import MOMENTS
from kcore.sim.raft.damage import damaged
from kcore.sim.raft.disk import (
    STORE_STEPS,
    LogWatcher,
    SimDirectory,
    WatchedLog,
    crash_within,
    formatted,
    parsed_file,
    power_cut,
)
from kcore.sim.raft.options import FAULTS, draw
from kcore.sim.raft.simulated_machine import PendingStore
from kcore.sim.raft.world import World
from kcore.storage.log.segmented_log import Settings
from kcore.types import Uuid
from kcore.wire.record_building import encode_records, encode_values
from kcore.wire.records import Record, values_of
from raft import batches


def batch(offset: int, epoch: int = 1, value: bytes = b"x") -> bytes:
    return encode_records([Record(offset, 0, None, value)], partition_leader_epoch=epoch)


SETTINGS = Settings(2_000, 250, set_aside=True)
KEY = ReplicaKey(1, Uuid(bytes(15) + b"\x09"))


def opened(disk: SimFileSystem, watcher: LogWatcher | None = None) -> WatchedLog:
    """As a process opens it."""
    directory = SimDirectory(disk, KEY.id, "cluster", (), watcher or LogWatcher())
    log, _ = directory.open(SETTINGS)
    assert isinstance(log, WatchedLog)
    return log


def new_log(watcher: LogWatcher | None = None) -> WatchedLog:
    return opened(formatted(KEY, "cluster", ()), watcher)


def written(log: WatchedLog, count: int) -> WatchedLog:
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
    log = written(new_log(), 3)
    flush = log.begin_flush()
    written(log, 2)
    assert log.flushed_end == 0
    flush()
    assert (log.flushed_end, log.end_offset) == (3, 5)


def test_a_log_that_is_opened_again_has_the_batches_of_its_files() -> None:
    """Whatever has become of them since they were looked at last: more, fewer, others, or what is none."""
    log = written(new_log(), 5)
    disk = log._disk

    def found() -> list[bytes]:
        log.end_process()
        disk.end_process()
        return [each.data for each in opened(disk).batches]

    first = found()
    assert len(first) == 5 and found() == first
    file = disk.file(log._log.segments[-1].path)
    for data in (
        b"".join([*first, batch(5), batch(6)]),
        b"".join(first[:2]),
        b"".join([*first[:3], batch(3, 2), batch(4, 2)]),
        b"".join(first)[:-1],
        b"",
    ):
        file.data[:] = data
        looked = parsed_file(file)
        batches = looked.batches
        assert batches == split_batches(data)[0] and looked.data == b"".join([each.data for each in batches])
        assert looked.ends == [sum(len(each.data) for each in batches[: k + 1]) for k in range(len(batches))]
        assert looked.controls == [each for each in batches if each.is_control]


def led_alone() -> World:
    """By one voter, whose log is as it was at its last start."""
    quiet = {"faults": ("slow_link",), "damaged": 0.0, "mistaken": 0.0, "snapshot_every_us": 1 << 40}
    world = World(1, draw(1, voters=1, observers=0, segment_bytes=1 << 20, append_every_us=20_000, **quiet))
    world.begin()
    world.take(600)
    again(world)
    return world


def again(world: World) -> None:
    """Its process is killed, and starts."""
    processes.kill(world, world.machines[0], peers_know=False)
    processes.boot(world, world.machines[0])


def test_what_was_found_as_it_was_written_is_compared_again_where_it_has_changed() -> None:
    """Whole batches of the same places, that a crash cannot leave."""
    for row in (3, -3):
        world = led_alone()
        machine = world.machines[0]
        [looked] = machine.log.found
        assert looked.judged == len(looked.batches) > 20
        again(world)
        file = machine.disk.file(machine.log._log.segments[0].path)
        before = [each for each in looked.batches if not each.is_control][row]
        values = [bytes(len(value or b"")) for value in values_of(before.data).values()]
        other = encode_values(values, base_offset=before.base_offset, timestamp=0, partition_leader_epoch=before.epoch)
        assert len(other) == len(before.data)
        file.data[:] = file.data.replace(before.data, other)
        with pytest.raises(Violation, match=f"another batch at offset {before.base_offset} of epoch {before.epoch}"):
            again(world)


def test_what_a_leader_has_is_compared_with_what_is_committed_again_where_it_was_cut() -> None:
    world = led_alone()
    machine, committed = world.machines[0], world.facts.committed
    epoch, log = machine.node.epoch, machine.log
    assert 0 < log.compared_to() <= committed.end
    committed.check_leader(log, epoch + 1)
    [last] = [each for each in log.batches if each.last_offset == committed.end - 1]
    log._watcher, log.high_watermark = LogWatcher(), 0
    log.truncate_to_end_offset(OffsetAndEpoch(last.base_offset, last.epoch))
    assert log.compared_to() <= last.base_offset
    values = [b"other"] * (last.last_offset - last.base_offset + 1)
    other = encode_values(values, base_offset=last.base_offset, timestamp=0, partition_leader_epoch=last.epoch)
    log.append_as_follower(other, epoch)
    with pytest.raises(Violation, match="is not what was committed"):
        committed.check_leader(log, epoch + 1)


def test_an_fsync_does_not_cover_what_was_cut_meanwhile() -> None:
    log = written(new_log(), 3)
    flush = log.begin_flush()
    log.truncate_to_end_offset(OffsetAndEpoch(1, 0))
    log.append_as_leader(batch(1, epoch=2), 2)
    flush()
    assert (log.flushed_end, [each.epoch for each in log.batches]) == (1, [1, 2])


def test_what_is_durable_goes_over_segments() -> None:
    """A roll syncs the segment that is full; of the next one its name is durable, and not yet its bytes."""
    log = new_log()
    while len(log._log.segments) < 3:
        written(log, 1)
    assert log.flushed_end == log._log.segments[-1].base_offset == log.end_offset - 1
    log.flush()
    assert log.flushed_end == log.end_offset


FATES_OF_A_LOG = ("tail lost", "tail kept", "tail lost in part", "torn write", "bit flip")


def fates(make: Callable[[], tuple[SimFileSystem, WatchedLog]]) -> dict[str, set[tuple[int, ...]]]:
    """The epochs of the batches that a power cut leaves, by what becomes of the end, of many cuts."""
    found: dict[str, set[tuple[int, ...]]] = {}
    for seed in range(120):
        disk, log = make()
        log.end_process()
        [fate] = power_cut(disk, Random(seed))
        left = opened(disk)
        found.setdefault(fate, set()).add(tuple(each.epoch for each in left.batches))
        assert left.flushed_end == left.end_offset >= log.durable_end
        assert left.epochs.latest_epoch == (left.batches[-1].epoch if left.batches else None)
    return found


def test_a_power_cut_leaves_what_was_flushed_and_perhaps_more() -> None:
    def make() -> tuple[SimFileSystem, WatchedLog]:
        disk = formatted(KEY, "cluster", ())
        log = written(opened(disk), 3)
        log.flush()
        return disk, written(log, 4)

    some = {(1,) * count for count in range(3, 7)}
    assert fates(make) == dict(zip(FATES_OF_A_LOG, [{(1,) * 3}, {(1,) * 7}, some, some, some], strict=True))


def test_a_cut_is_durable_and_what_comes_behind_it_not_yet() -> None:
    def make() -> tuple[SimFileSystem, WatchedLog]:
        disk = formatted(KEY, "cluster", ())
        log = written(opened(disk), 3)
        log.flush()
        log.truncate_to_end_offset(OffsetAndEpoch(1, 0))
        log.append_as_follower(batch(1, epoch=2), 2)
        assert log.durable_end == 1
        return disk, log

    found = fates(make)
    assert set().union(*found.values()) == {(1,), (1, 2)} and found["tail kept"] == {(1, 2)}


def test_a_power_cut_does_not_take_a_new_beginning_back() -> None:
    for seed in range(20):
        disk, other = formatted(KEY, "cluster", ()), OffsetAndEpoch(9, 2)
        log = written(opened(disk), 3)
        batches.snapshot(log, other)
        assert log.truncate_to_latest_snapshot() and log.durable_end == 9
        log.append_as_follower(batch(9, epoch=2), 2)
        power_cut(disk, Random(seed))
        left = opened(disk)
        assert (left.start_offset, left.durable_end) == (9, left.end_offset) and left.end_offset in (9, 10)


def test_a_kill_leaves_all_that_was_written_and_opening_makes_it_durable() -> None:
    disk = formatted(KEY, "cluster", ())
    log = written(opened(disk), 3)
    log.flush()
    written(log, 4)
    log.end_process()
    disk.end_process()
    assert (log.durable_end, log.end_offset, bool(disk.unsynced)) == (3, 7, True)
    left = opened(disk)
    assert (left.end_offset, left.durable_end, left.batches) == (7, 7, log.batches)


def test_each_step_of_storing_an_election_is_a_moment_of_a_crash() -> None:
    """Before it has its name the old one is there, behind that the new one; a power cut may take the name back."""
    first, second = ElectionState(1), ElectionState(2)
    killed, cut = [], []
    for steps in range(STORE_STEPS + 1):
        for is_cut, found in ((False, killed), (True, cut)):
            seen = set()
            for seed in range(12):
                disk = formatted(KEY, "cluster", ())
                directory = SimDirectory(disk, KEY.id, "cluster", (), LogWatcher())
                directory.store_election(first, 1)
                assert crash_within(disk, steps, partial(directory.store_election, second, 1)) == (steps == STORE_STEPS)
                if is_cut:
                    power_cut(disk, Random(seed))
                disk.end_process()
                _, left = SimDirectory(disk, KEY.id, "cluster", (), LogWatcher()).open(SETTINGS)
                assert left is not None and not any(name.endswith(".tmp") for name in disk.names(directory.folder))
                seen.add(left.epoch)
            found.append(seen)
    assert killed == [{1}, {1}, {1}, {1}, {2}, {2}]
    assert cut == [{1}, {1}, {1}, {1}, {1, 2}, {2}]


def world_with(count: int) -> list[WatchedLog]:
    """The logs of one world, each watched."""
    world = World(1, draw(1, voters=count, observers=0, dynamic=False, upgraded=False))
    for machine in world.machines:
        processes.boot(world, machine)
    return [machine.log for machine in world.machines]


def test_one_offset_of_one_epoch_has_one_batch_in_the_world() -> None:
    log, other = world_with(2)
    written(log, 2)
    other.append_as_follower(batch(0), 1)
    with pytest.raises(Violation, match="two batches at offset 1 of epoch 1"):
        other.append_as_follower(batch(1, value=b"another"), 1)


def test_before_the_same_batch_all_is_the_same() -> None:
    log, other = world_with(2)
    written(log, 2)
    log.append_as_follower(batch(2, epoch=3), 3)
    other.append_as_follower(batch(0) + batch(1, epoch=2, value=b"another"), 2)
    with pytest.raises(Violation, match="epochs 1 and 2 before the batch at offset 2 of epoch 3"):
        other.append_as_follower(batch(2, epoch=3), 3)


def fetched(*batches: bytes) -> FetchResponse:
    partition = PartitionData(records=b"".join(batches))
    return FetchResponse(responses=[FetchableTopicResponse(partitions=[partition])])


def records_of(response: Any) -> bytes:
    return bytes(response.responses[0].partitions[0].records)


def test_damage_is_found_by_who_looks() -> None:
    """A part of the batches is lost, or all; none comes that was not sent."""
    sent = [batch(offset) for offset in range(3)]
    response, random, left = fetched(*sent), Random(1), set()
    for _ in range(200):
        data = records_of(damaged(response, new_log(), random))
        found, _ = split_batches(data)
        assert [each.data for each in found] == sent[: len(found)] and data != b"".join(sent)
        left.add(len(found))
    assert left == {0, 1, 2} and records_of(response) == b"".join(sent)


def test_a_damaged_piece_of_a_snapshot_is_none_of_it() -> None:
    log, snapshot = new_log(), OffsetAndEpoch(3, 1)
    whole = b"".join(batch(offset) for offset in range(3))
    log.begin_snapshot(snapshot)
    log.append_snapshot(snapshot, whole)
    log.freeze_snapshot(snapshot)
    random = Random(1)
    for begin in range(0, len(whole), 25):
        piece = FetchSnapshotResponsePartitionSnapshot(
            snapshot_id=SnapshotId(end_offset=3, epoch=1),
            size=len(whole),
            position=begin,
            unaligned_records=whole[begin : begin + 25],
        )
        sent = FetchSnapshotResponse(topics=[FetchSnapshotResponseTopicSnapshot(partitions=[piece])])
        response: Any = damaged(sent, log, random)
        if response is not None:
            data = bytes(response.topics[0].partitions[0].unaligned_records)
            assert split_batches(whole[:begin] + data + whole[begin + 25 :])[1] is not None


def test_a_network_loses_delays_and_duplicates_as_often_as_it_should() -> None:
    options = draw(1, lost=0.1, delayed=0.2, duplicated=0.3, latency_us=100)
    network = Network(options.links, 2, Random(1))
    copies: Counter[int] = Counter()
    late = 0
    for _ in range(10_000):
        delays_us = network.delays_us(0, 1)
        copies[len(delays_us)] += 1
        late += any(delay_us > 200 for delay_us in delays_us)
    assert 900 < copies[0] < 1_100 and 2_800 < copies[2] < 3_200 and 4_700 < late < 5_300


def test_a_cut_is_one_way_and_ends_with_healing() -> None:
    network = Network(draw(1, lost=0.0, delayed=0.0, duplicated=0.0).links, 2, Random(1))
    network.cuts[0][1] += 1
    network.slowness_us[1][0] = 1_000_000
    assert network.delays_us(0, 1) == () and network.delays_us(1, 0) > (1_000_000,)
    network.lost_more = 1.0
    assert network.delays_us(1, 0) == ()
    network.noise[0][1] = 1.0
    assert network.is_noisy(0, 1) and not network.is_noisy(1, 0)
    network.be_reliable()
    assert not network.is_noisy(0, 1)
    assert len(network.delays_us(0, 1)) == len(network.delays_us(1, 0)) == 1


def test_no_way_between_states_is_left_out() -> None:
    """Covers both releases, the option `endless_elections`, all faults and all moments of a crash."""
    kinds = [{"pre_vote": True}, {"pre_vote": False}, {"pre_vote": True, "endless_elections": True}]
    kinds.append({"pre_vote": False, "endless_elections": True})
    ways = {f"way: {way.source} to {way.target}, {way.event.value}" for kind in kinds for way in transitions(**kind)}
    every = ways | {f"fault: {name}" for name in FAULTS} | {f"trap: {name}" for name in MOMENTS}
    assert set(never_seen(())) == every and never_seen(every) == []


def test_a_timer_is_set_again_for_an_earlier_deadline_alone() -> None:
    world = World(1, draw(1, voters=3, observers=0))
    world.begin()
    machine = next(each for each in world.machines if each.timer_ms == each.node.next_deadline_ms)
    deadline_ms, due_us, count = machine.timer_ms, machine.timer_us, len(world.heap)
    machine.node.next_deadline_ms = deadline_ms + 100
    world.edge.arm(machine)
    assert (machine.timer_us, len(world.heap)) == (due_us, count)
    machine.node.next_deadline_ms = deadline_ms - 1
    world.edge.arm(machine)
    assert world.now_us < machine.timer_us < due_us and len(world.heap) == count + 1


def test_a_clock_that_jumps_brings_the_timer_forward(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(1, draw(1, voters=1, observers=0))
    world.begin()
    [machine] = world.machines
    due_us = machine.timer_us
    monkeypatch.setattr(world.random, "choice", lambda given: given[-1])  # The only machine, and the longest jump.
    faults.clock_jump(world)
    deadline_ms = machine.node.next_deadline_ms
    assert deadline_ms is not None
    assert machine.timer_us == max(machine.clock.when_us(deadline_ms), world.now_us + 1) < due_us


def test_a_hook_is_for_the_kinds_of_messages_that_it_names_or_for_all() -> None:
    class OfFetches(Checker):
        @only_for(FetchRequest)
        def on_send(self, *_: Any) -> None:
            """Never called here."""

    checker = OfFetches(World(1, draw(1)))
    assert is_for(checker.on_send, FetchRequest) and not is_for(checker.on_send, VoteRequest)
    assert is_for(checker.on_answer, VoteRequest)


def test_checkers_look_at_a_machine_again_where_something_changed() -> None:
    """At its files where one has changed, at all else where that has; at both behind each audit, once."""
    world = World(1, draw(1))
    world.begin()
    world.take(100)
    machine = next(machine for machine in world.machines if machine.is_up)
    looked: list[str] = []
    world.checkers._after_event[:] = [lambda each: looked.append(f"event {each.index}")]
    world.checkers._after_write[:] = [lambda each: looked.append(f"write {each.index}")]
    event, write = f"event {machine.index}", f"write {machine.index}"
    pending = PendingStore(ElectionState(1), 0, [])
    changes: list[tuple[Callable[[], object], list[str]]] = [
        (lambda: setattr(machine.disk, "count", machine.disk.count + 1), [write]),
        (lambda: setattr(machine, "fsync", Flush(1_000)), [write]),
        (lambda: setattr(machine, "storing", pending), [write, event]),
        (lambda: setattr(machine.node.quorum, "high_watermark", 1_000), [event]),
        (lambda: setattr(machine, "checked", None), [event]),
        (world.checkers.audit, [write, event]),
    ]
    world.checkers.after_event(machine)
    for change, hooks in changes:
        change()
        looked.clear()
        world.checkers.after_event(machine)
        world.checkers.after_event(machine)
        assert looked == hooks
