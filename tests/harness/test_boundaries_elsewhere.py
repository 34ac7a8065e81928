"""Limits of brokers, raft, storage and reports, exactly at the boundary."""

from pathlib import Path
from typing import Any

import pytest

from broker.cluster import led
from broker.directories.placements import A, a_queue, an_image, answer, asked, p
from harness.boundary import check_limit
from kcore.broker.directories import placing
from kcore.broker.directories.assignments import MAX_ASSIGNMENTS_PER_REQUEST, NOISY_FAILURE_MS
from kcore.broker.directories.failures import DirectoryFailures
from kcore.broker.directories.outputs import AssignmentsRefused
from kcore.broker.lifecycle.machine import BrokerLifecycle, BrokerState, LifecycleConfig, Started, Timer
from kcore.broker.replicas import fetch_sessions
from kcore.broker.replicas.partition import Follower
from kcore.errors import StorageError
from kcore.measure.bench.bench_results import summarise
from kcore.measure.bench.compare import THRESHOLD, compare
from kcore.measure.report import earlier, noise
from kcore.measure.report.earlier import EarlierRun, EarlierRuns
from kcore.measure.report.figure_history import history_section
from kcore.measure.report.noise import INTERVAL_OVER_MEDIAN, LOAD_A_CORE, P99_OVER_MEDIAN, P99_OVER_MIN, STOLEN, Spread
from kcore.metadata.image.image import ClusterImage
from kcore.metadata.image.image_state import MOST_KEYS, RecentKeys
from kcore.net.request_context import ClientSession
from kcore.node.acls import key_of
from kcore.node.kraft.image_indexes import AclIndex
from kcore.protocol_errors import ApiException, Errors
from kcore.raft.log.accumulator import RECORD_OVERHEAD, Accumulator
from kcore.raft.raft_config import MAX_BATCH_BYTES
from kcore.raft.states import OBSERVER_SESSION_TIMEOUT_MS
from kcore.schema.envelope import EnvelopeRequest
from kcore.schema.headers import RequestHeader
from kcore.schema.metadata_records_security import AccessControlEntryRecord, RemoveAccessControlEntryRecord
from kcore.schema.topics import DeleteTopicsRequest
from kcore.server.broker.forwarding import principal_bytes
from kcore.server.envelopes import Forwarded, unwrapped
from kcore.storage.files import read_bytes
from kcore.storage.log.live_log import LiveLog, Settings
from kcore.types import Uuid
from kcore.wire.codec import encode
from kcore.wire.record_batch import HEADER_END, scan_batches
from raft.nodes import begin_request, directory, follower, leader, started
from raft.replication import committed_leader, fetch, fetch_request, fetch_response, flush, open_fetch, values
from storage import building
from workloads.fakes import row

# Comparison and reports.


def _ratio(median: int, best: int, threshold: float = THRESHOLD) -> Any:
    old = summarise([row(samples_ns=[100, 200, 300])])
    return compare(old, summarise([row(samples_ns=[best, median, 10 * median])]), threshold)


def test_a_ratio_of_exactly_the_threshold_is_neither_slower_nor_faster() -> None:
    assert THRESHOLD == 1.25
    check_limit(lambda median: not _ratio(median, median // 2).regressions, 250, step=2)
    check_limit(lambda best: not _ratio(10_000, best).regressions, 125)
    check_limit(lambda median: not _ratio(-median, -median // 2).improvements, -160, step=2)
    assert not compare(summarise([row()]), summarise([row()]), 1.0).regressions, "equal is not slower"


def _spread(**fields: float) -> Spread:
    values_ = {"least": 100.0, "quarter": 100.0, "median": 100.0, "three_quarters": 100.0, "p99": 100.0}
    return Spread(count=9, **(values_ | {"low": 100.0, "high": 100.0} | fields))


def test_figures_at_the_limits_of_noise_are_not_noisy() -> None:
    at_median, at_least = int(100 * P99_OVER_MEDIAN), int(100 * P99_OVER_MIN)
    check_limit(lambda p99: not _spread(p99=p99).noise, at_median)
    check_limit(lambda p99: not _spread(p99=p99, median=1_000.0, low=1_000.0, high=1_000.0).noise, at_least)
    check_limit(lambda high: not _spread(high=high).noise, 100 + int(100 * INTERVAL_OVER_MEDIAN))


def test_a_machine_at_the_limits_of_load_is_not_busy() -> None:
    def is_quiet(**load: float) -> bool:
        return not noise.about_the_machine({"machine": {"cores": 4}, "load": load})

    check_limit(lambda hundredths: is_quiet(load_before=hundredths / 100), int(400 * LOAD_A_CORE))
    check_limit(lambda hundredths: is_quiet(stolen_share=hundredths / 100), int(100 * STOLEN))


def _run(number: int) -> EarlierRun:
    return EarlierRun(Path(f"run-{number}"), {"when": f"2026-11-0{number}", "figure": 10.0 * number}, None)  # type: ignore[arg-type]


@pytest.mark.parametrize("count", [0, 1, 2, 3, 5])
def test_a_history_of_many_runs_is_compared_with_the_last_one(count: int) -> None:
    runs = [_run(number) for number in range(1, count + 1)]
    page = history_section(
        ("what",), {("it",): 100.0}, EarlierRuns(runs), lambda run: {("it",): run.facts["figure"]}, str, "about"
    )
    if not count:
        assert page == ""
        return
    places = [page.index(f"run-{number}") for number in range(1, count + 1)]
    assert places == sorted(places), "oldest first"
    assert [page.count(f">{10.0 * number}<") for number in range(1, count + 1)] == [1] * count
    ratio = 100 / (10 * count)
    assert any(f"{text}x" in page for text in (f"{ratio:.3g}", f"{ratio:.2f}", f"{ratio:.1f}")), "over the last one"


def test_a_run_without_a_figure_in_the_last_run_is_compared_with_nothing() -> None:
    read = lambda run: {("it",): 10.0} if run.path.name == "run-1" else {("other",): 5.0}  # noqa: E731
    now = {("it",): 100.0, ("other",): 10.0}
    page = history_section(("what",), now, EarlierRuns([_run(1), _run(2)]), read, str, "about")
    assert "10x" not in page.replace("10.0x", "10x") and "2.00x" in page
    assert earlier.MOST_RUNS == 10


# Logs.


def _log(folder: Path, **settings: Any) -> LiveLog:
    return LiveLog(folder, settings=Settings(**settings))


def _append(log: LiveLog, *times_ms: int) -> None:
    for time_ms in times_ms:
        data = building.batch(log.end_offset, time_ms=time_ms)
        log.append(data, scan_batches(data))


def test_a_segment_is_as_old_as_its_limit_at_the_most(tmp_path: Path) -> None:
    def stays(age_ms: int) -> bool:
        with _log(tmp_path / f"age-{age_ms}", segment_ms=1_000) as log:
            _append(log, building.TIME_MS, building.TIME_MS + age_ms)
            return len(log._log.segments) == 1

    check_limit(stays, 1_000)


def test_a_segment_is_as_large_as_its_limit_at_the_most(tmp_path: Path) -> None:
    size = len(building.batch(0))

    def stays(less: int) -> bool:
        with _log(tmp_path / f"size-{less}", segment_bytes=2 * size - less) as log:
            _append(log, building.TIME_MS, building.TIME_MS)
            return len(log._log.segments) == 1

    check_limit(stays, 0)


def test_records_are_kept_that_are_as_old_as_the_limit(tmp_path: Path) -> None:
    def stays(age_ms: int) -> bool:
        with _log(tmp_path / f"kept-{age_ms}", segment_bytes=1) as log:
            _append(log, building.TIME_MS, building.TIME_MS + 10**9)
            log.high_watermark = 2
            return not log.delete_old(building.TIME_MS + age_ms, None)

    check_limit(stays, 0)


def test_a_log_keeps_so_many_bytes_that_no_segment_more_may_go(tmp_path: Path) -> None:
    size = len(building.batch(0))

    def stays(excess: int) -> bool:
        with _log(tmp_path / f"bytes-{excess}", segment_bytes=1) as log:
            _append(log, building.TIME_MS, building.TIME_MS, building.TIME_MS)
            log.high_watermark = 3
            return not log.delete_old(None, 3 * size - excess)

    check_limit(stays, size - 1)


def test_what_is_not_committed_is_not_deleted(tmp_path: Path) -> None:
    def stays(high_watermark: int) -> bool:
        with _log(tmp_path / f"committed-{high_watermark}", segment_bytes=1) as log:
            data = building.batch(0, [b"a", b"b"])
            log.append(data, scan_batches(data))
            _append(log, building.TIME_MS)
            log.high_watermark = high_watermark
            return not log.delete_old(building.TIME_MS + 1, None)

    assert stays(1) and not stays(2)


@pytest.mark.parametrize("offset", [2, 3, 4, 100])
def test_a_log_begins_at_its_end_at_the_latest(tmp_path: Path, offset: int) -> None:
    with _log(tmp_path / "log", segment_bytes=1) as log:
        _append(log, building.TIME_MS, building.TIME_MS, building.TIME_MS)
        log.high_watermark = 1
        log.raise_start_offset(offset)
        assert (log.start_offset, log.end_offset) == (min(offset, 3), 3)
        assert log.high_watermark == log.start_offset
        _append(log, building.TIME_MS)
        assert log.end_offset == 4


@pytest.mark.parametrize("offset", [0, 1, 2, 3, 4])
def test_nothing_of_a_log_lies_behind_the_end_of_a_cut(tmp_path: Path, offset: int) -> None:
    with _log(tmp_path / "log") as log:
        _append(log, building.TIME_MS, building.TIME_MS, building.TIME_MS)
        log.high_watermark = 3
        log.raise_start_offset(2)
        log.truncate_to(offset)
        end = min(offset, 3)
        assert (log.end_offset, log.high_watermark, log.start_offset) == (end, end, min(2, end))


def test_a_file_has_so_many_bytes_at_the_most(tmp_path: Path) -> None:
    def reads(size: int) -> bool:
        path = tmp_path / "f"
        path.write_bytes(b"x" * size)
        try:
            return read_bytes(path, 1_000) == b"x" * size
        except StorageError:
            return False

    check_limit(reads, 1_000)


# Brokers.


def test_a_request_has_so_many_assignments_at_the_most() -> None:
    assert MAX_ASSIGNMENTS_PER_REQUEST == 2_250

    def fits(count: int) -> bool:
        queue = a_queue(an_image(count))
        queue.enqueue_all([p(index) for index in range(count)], A, "found", 0)
        request = queue.next_request(1_000)
        assert len(asked(request)) == min(count, MAX_ASSIGNMENTS_PER_REQUEST)
        queue.on_response(answer(request), 1_000)
        return queue.queued == 0

    check_limit(fits, MAX_ASSIGNMENTS_PER_REQUEST)


def test_more_than_a_request_of_assignments_does_not_wait_for_others() -> None:
    def waits(count: int) -> bool:
        queue = a_queue(an_image(count))
        queue.enqueue_all([p(index) for index in range(count)], A, "found", 0)
        return queue.next_deadline_ms != 0

    check_limit(waits, MAX_ASSIGNMENTS_PER_REQUEST)


def test_an_assignment_that_is_refused_for_two_minutes_is_not_logged_yet() -> None:
    def is_silent(after_ms: int) -> bool:
        queue = a_queue(an_image(1))
        queue.enqueue(p(0), A, "found", 0)
        refused = answer(queue.next_request(1_000), lambda each: Errors.UNKNOWN_SERVER_ERROR)
        queue.on_response(refused, after_ms)
        return not any(isinstance(each, AssignmentsRefused) for each in queue.take_outputs())

    check_limit(is_silent, NOISY_FAILURE_MS)


def test_a_broker_registers_until_its_time_is_up_and_no_longer() -> None:
    def goes_on(now_ms: int) -> bool:
        config = LifecycleConfig(1, "c", Uuid(b"i" * 16), [], [], [A], registration_timeout_ms=60_000)
        machine = BrokerLifecycle(config, lambda: 0, DirectoryFailures([A], 1, timeout_ms=1))
        machine.on_event(Started(), 0)
        machine.on_event(Timer(), now_ms)
        return machine.state is BrokerState.STARTING

    check_limit(goes_on, 60_000 - 1)


def test_a_failed_directory_has_its_time_until_the_controller_must_know_it() -> None:
    def goes_on(now_ms: int) -> bool:
        failures = DirectoryFailures([A, Uuid(b"b" * 16)], 2, timeout_ms=30_000)
        failures.on_failed(A, 0)
        return failures.tick(now_ms, lambda _: True, lambda _: False) == []

    check_limit(goes_on, 30_000 - 1)


def test_a_follower_is_in_sync_for_the_whole_of_its_lag() -> None:
    lagging = Follower()
    lagging.last_caught_up_ms = 1_000
    check_limit(lambda now_ms: lagging.is_caught_up(5, now_ms, 30_000), 31_000)


def test_records_up_to_the_high_watermark_may_be_deleted() -> None:
    cluster = led()
    for value in (b"a", b"b", b"c"):
        cluster.produce(1, value)
    cluster.run()
    cluster.produce(1, b"not committed")
    partition = cluster.partition(1)
    assert partition.log is not None and (partition.log.high_watermark, partition.log.end_offset) == (3, 4)

    def deletes(offset: int) -> bool:
        try:
            return partition.delete_records(offset) == offset
        except ApiException:
            return False

    check_limit(deletes, 3)
    check_limit(lambda less: deletes(3 - less) or less < 1, 3)


def test_reads_begin_at_the_end_at_the_latest() -> None:
    cluster = led()
    cluster.produce(1, b"a")
    cluster.run()
    check_limit(lambda offset: cluster.fetch(1, offset).error_code == 0, 1)


def test_all_fetch_sessions_together_have_so_many_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    assert fetch_sessions.MOST_PARTITIONS == 500_000
    monkeypatch.setattr(fetch_sessions, "MOST_PARTITIONS", 10)
    cache = fetch_sessions.FetchSessionCache(5, lambda bound: 7)
    cache.num_partitions = 4
    check_limit(lambda more: cache._make_room(more, False), 6)


# Raft.


def test_a_leader_leads_until_its_progress_time_is_over() -> None:
    def leads(now_ms: int) -> bool:
        node, _ = leader()
        node.on_timer(1_000 + now_ms)
        return node.leads

    check_limit(leads, 3_000 - 1)


def test_a_follower_follows_until_its_fetch_time_is_over() -> None:
    def follows(now_ms: int) -> bool:
        node = follower()
        node.on_timer(now_ms)
        return node.state.name == "Follower"

    check_limit(follows, 2_000 - 1)


def test_an_observer_is_forgotten_at_the_end_of_its_session() -> None:
    def is_known(after_ms: int) -> bool:
        node = committed_leader()
        fetch(node, fetch_request(1, replica=9, max_wait_ms=0), 1_000)
        node.leading.forget_silent_observers(1_000 + after_ms)
        return any(key.id == 9 for key in node.leading.observers)

    check_limit(is_known, OBSERVER_SESSION_TIMEOUT_MS - 1)


@pytest.mark.parametrize("voters", [2, 3, 4, 5])
def test_a_majority_of_the_voters_commits_and_one_less_does_not(voters: int) -> None:
    """The leader is one of them."""
    needed = voters // 2  # Others.

    def waits(count: int) -> bool:
        node, effects = leader(voters=tuple(range(1, voters + 1)), append_linger_ms=0)
        flush(node, effects, 1_000)
        for replica in range(2, 2 + count):
            fetch(node, fetch_request(1, replica=replica, max_wait_ms=0, directory_id=directory(replica)), 1_000)
        return node.high_watermark is None

    assert waits(needed - 1) and not waits(needed)


def test_a_follower_appends_what_begins_exactly_at_its_end() -> None:
    def appends(offset: int) -> bool:
        node, _effects = started()
        open_ = open_fetch(node.on_request(begin_request(1), 1, "begin", 0))
        node.on_response(open_.correlation_id, fetch_response(values(b"a", base_offset=offset)), 10)
        return node.log.end_offset == offset + 1

    assert appends(0) and not appends(1)


# Indexes, choices and envelopes.


def test_an_index_that_missed_as_many_changes_as_are_remembered_catches_up() -> None:
    """And one more has it look at all."""
    assert MOST_KEYS == 1024

    def knows(missed: int) -> bool:
        recent = RecentKeys()
        recent.add("before")
        seen = recent.count
        for number in range(missed):
            recent.add(number)
        found = recent.since(seen)
        assert found is None or found == {*range(missed)}, "neither more nor less"
        return found is not None

    check_limit(knows, MOST_KEYS)
    assert RecentKeys().since(0) == set()


@pytest.mark.parametrize("missed", [MOST_KEYS - 1, MOST_KEYS, MOST_KEYS + 1])
def test_acls_that_were_removed_among_many_changes_are_gone(missed: int) -> None:
    image, index = ClusterImage(), AclIndex()
    gone, kept = _acl("gone"), _acl("kept")
    for record in (gone, kept):
        image.apply(record)
    assert key_of(gone) in index.of(image) and key_of(kept) in index.of(image)
    image.apply(RemoveAccessControlEntryRecord(id=gone.id))
    for number in range(missed - 1):
        image.apply(_acl(f"other-{number}"))
    found = index.of(image)
    assert key_of(gone) not in found and key_of(kept) in found
    assert missed == 1 or key_of(_acl(f"other-{missed - 2}")) in found


def _acl(name: str) -> AccessControlEntryRecord:
    resource = {"resource_type": 2, "resource_name": name, "pattern_type": 3}
    entry = {"principal": "User:alice", "host": "*", "operation": 3, "permission_type": 3}
    return AccessControlEntryRecord(id=Uuid(name.encode().ljust(16, b".")[:16]), **resource, **entry)


def test_so_many_directories_that_were_chosen_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(placing, "MOST_PREFERRED", 3)
    other = Uuid(b"o" * 16)

    def remembers_the_first(count: int) -> bool:
        choice = placing.DirectoryChoice()
        for number in range(count):
            choice.prefer(("t", number), A)
        assert choice.take(("t", count - 1), other, [A, other], (), {}) == A, "the newest"
        return count == 1 or choice.take(("t", 0), other, [A, other], (), {}) == A

    check_limit(remembers_the_first, 3)


def test_a_request_in_an_envelope_has_so_many_values_at_the_most() -> None:
    def is_read(count: int) -> bool:
        request = DeleteTopicsRequest(topic_names=[f"t{number}" for number in range(count)], timeout_ms=1)
        head = RequestHeader(request_api_key=request.api_key, request_api_version=3, correlation_id=5, client_id="c")
        data = bytes(encode(head, request.header_version(3)) + encode(request, 3))
        principal = principal_bytes(ClientSession("PLAINTEXT", "127.0.0.1"))
        envelope = EnvelopeRequest(request_data=data, request_principal=principal, client_host_address=bytes(4))
        found = unwrapped(envelope, 10)
        assert isinstance(found, Forwarded) or found is Errors.UNSUPPORTED_VERSION
        return isinstance(found, Forwarded)

    check_limit(is_read, 10)


def test_a_batch_of_a_leader_is_filled_to_its_last_byte() -> None:
    accumulator = Accumulator(0)
    room = MAX_BATCH_BYTES - HEADER_END - 2 * RECORD_OVERHEAD
    accumulator.add([b"x" * 100], 0, 10)
    check_limit(lambda size: accumulator.has_room([b"y" * size]), room - 100)
