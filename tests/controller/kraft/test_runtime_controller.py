"""When a controller appends, replays and answers; what it takes back; what a fault costs."""

from typing import Any

import numpy as np
import pytest

from controller.kraft.active import Active, counted_from_zero
from controller.kraft.runtime import BEGIN_MS, Stage, controller_of, decides, setting, settings_of
from kcore.controller.kraft.activation import Bootstrap
from kcore.controller.kraft.decision import Decision, Versioned
from kcore.controller.kraft.departures import ABORTED_RECORDS
from kcore.controller.kraft.handlers import HANDLERS
from kcore.controller.kraft.kafka_way.shadow import KafkaShadow
from kcore.controller.kraft.kraft_context import RequestInfo
from kcore.controller.kraft.outputs import RequestAnswer
from kcore.controller.kraft.periodic import Task
from kcore.metadata.image.image import ClusterImage
from kcore.metadata.image.replay import replay
from kcore.metadata.metadata_version import VERSIONS_BY_RELEASE, MetadataVersion
from kcore.node.kraft.snapshot_slices import snapshot_slices
from kcore.protocol_errors import Errors
from kcore.raft import leading
from kcore.raft.log.batches import split_batches
from kcore.raft.log.control_records import leader_change
from kcore.raft.log.raft_log import SnapshotPiece
from kcore.raft.state_machine import SnapshotReader, UpgradeKraftVersion
from kcore.replication.raft_log import OffsetAndEpoch
from kcore.schema.broker_lifecycle import UnregisterBrokerRequest, UnregisterBrokerResponse
from kcore.schema.cluster_metadata import DescribeClusterRequest, DescribeClusterResponse
from kcore.schema.metadata_records_log import BeginTransactionRecord, EndTransactionRecord, NoOpRecord
from kcore.schema.structure import Message
from kcore.schema.topics import CreatableTopic, CreateTopicsRequest
from kcore.server.answers import fitting
from kcore.wire.codec import encode
from kcore.wire.metadata_frames import decode_metadata_record
from kcore.wire.records import decode_records
from raft.nodes import begin_request

ASK = UnregisterBrokerRequest
GOOD = UnregisterBrokerResponse()
LARGE = 700  # Settings of 30 kB: three batches.


@pytest.fixture
def handle(monkeypatch: pytest.MonkeyPatch) -> Any:
    def patched(handler: Any, request: type[Message] = ASK) -> None:
        monkeypatch.setitem(HANDLERS, request, handler)

    return patched


def code(answer: Any) -> Errors:
    return Errors(answer.error_code)


def replayed(stage: Stage) -> ClusterImage:
    """The image of a reader of the log."""
    image = ClusterImage()
    replay(image, decode_records(stage.node.log.read(0, 1 << 30, stage.node.log.end_offset)))
    return image


def test_a_response_waits_for_the_commit_of_what_was_decided(handle: Any) -> None:
    stage = Stage()
    stage.commit()
    handle(decides(GOOD, setting("a")))
    stage.ask(ASK(), "first")
    assert settings_of(stage.controller.context) == {"a": "1"}, "replayed at once"
    assert stage.answers == {}
    stage.commit()
    assert stage.answers == {"first": GOOD}
    assert replayed(stage) == stage.controller.image


@pytest.mark.covers("E17")
def test_what_saw_uncommitted_state_waits_for_its_commit(handle: Any) -> None:
    stage = Stage()
    stage.commit()
    handle(decides(GOOD, setting("a")))
    handle(decides(DescribeClusterResponse()), DescribeClusterRequest)
    stage.ask(DescribeClusterRequest(), "before")
    assert list(stage.answers) == ["before"], "nothing is uncommitted"
    stage.ask(ASK(), "write")
    stage.ask(DescribeClusterRequest(), "behind")
    assert list(stage.answers) == ["before"]
    stage.commit()
    assert list(stage.answers) == ["before", "write", "behind"]


def test_what_is_not_committed_is_undone_at_a_resignation(handle: Any) -> None:
    stage = Stage()
    stage.commit()
    handle(decides(GOOD, setting("kept")))
    stage.ask(ASK(), "committed")
    stage.commit()
    handle(decides(GOOD, setting("lost")))
    stage.ask(ASK(), "open")
    stage.perform(stage.node.on_request(begin_request(5, leader_id=3), 1, "begin", BEGIN_MS))
    assert settings_of(stage.controller.context) == {"kept": "1"}
    assert code(stage.answers["open"]) is Errors.NOT_CONTROLLER
    stage.ask(ASK(), "late")
    assert code(stage.answers["late"]) is Errors.NOT_CONTROLLER


def test_a_control_record_in_between_has_all_behind_it_decided_anew(handle: Any) -> None:
    """Kafka's broker epochs are offsets: a decision that names one must not be written elsewhere."""
    stage = Stage()
    stage.commit()

    def at_offset(context: Any, request: Any, info: RequestInfo) -> Decision:
        return Decision(GOOD, [setting(f"at-{context.next_offset}")])

    handle(at_offset)
    stage.ask(ASK(), "first")
    outputs = stage.controller.on_request(ASK(), RequestInfo(0, BEGIN_MS), "second")
    outputs = [*outputs, *stage.controller.on_request(ASK(), RequestInfo(0, BEGIN_MS), "third")]
    end = stage.node.next_offset
    leading.append_control(stage.node, [_leader_change(stage)], BEGIN_MS)
    stage.submit(outputs)
    stage.commit()
    assert settings_of(stage.controller.context) == {f"at-{at}": "1" for at in (end - 1, end + 1, end + 2)}
    assert list(stage.answers) == ["first", "second", "third"]
    assert replayed(stage) == stage.controller.image


def test_a_control_record_that_is_committed_first_takes_its_offset(handle: Any) -> None:
    """As with AddRaftVoter: nothing of the controller's is uncommitted when raft's own record is committed."""
    stage = Stage()
    stage.commit()
    leading.append_control(stage.node, [_leader_change(stage)], BEGIN_MS)
    stage.perform(stage.node.on_timer(BEGIN_MS))
    stage.commit()
    end = stage.node.next_offset
    assert stage.controller.image.end_offset == stage.controller.committed == end
    handle(lambda context, request, info: Decision(GOOD, [setting(f"at-{context.next_offset}")]))
    stage.ask(ASK(), "next")
    stage.commit()
    assert settings_of(stage.controller.context) == {f"at-{end}": "1"}
    assert list(stage.answers) == ["next"]
    assert replayed(stage) == stage.controller.image


def _leader_change(stage: Stage) -> Any:
    return leader_change(stage.node.local.id, stage.node.voters, [])


def test_a_handler_that_raises_costs_its_request_alone(handle: Any) -> None:
    stage = Stage()
    stage.commit()

    def falls_over(context: Any, request: Any, info: RequestInfo) -> Decision:
        raise KeyError("a bug")

    handle(falls_over, CreateTopicsRequest)
    end = stage.node.next_offset
    stage.ask(CreateTopicsRequest(topics=[CreatableTopic(name="x")]), "bad", 7)
    answer: Any = stage.answers["bad"]
    assert [(each.name, each.error_code) for each in answer.topics] == [("x", -1)]
    assert stage.node.leads and stage.node.next_offset == end
    [line] = [line for line in stage.log_lines if "CreateTopicsRequest" in line]
    assert "KeyError: 'a bug'; in falls_over (test_runtime_controller.py:" in line and "\n" not in line


@pytest.mark.covers("E16")
def test_records_that_do_not_fit_leave_nothing_behind(handle: Any) -> None:
    """The second record cannot be applied: the first is taken back, too."""
    stage = Stage()
    stage.commit()
    handle(decides(GOOD, setting("a"), Versioned(EndTransactionRecord())))
    stage.ask(ASK(), "bad")
    assert code(stage.answers["bad"]) is Errors.UNKNOWN_SERVER_ERROR
    assert settings_of(stage.controller.context) == {}
    handle(decides(GOOD, setting("b")))
    stage.ask(ASK(), "good")
    stage.commit()
    assert stage.answers["good"] is GOOD
    assert replayed(stage) == stage.controller.image


def test_more_than_a_batch_is_a_transaction_and_an_open_one_is_undone(handle: Any) -> None:
    """A leader that loses its place in the midst of it leaves it to the next one; nothing of it shows."""
    stage = _with_a_large_decision(handle)
    begin = stage.node.next_offset
    stage.ask(ASK(), "large")
    ends = [each.last_offset + 1 for each in _batches(stage, begin)]
    assert len(ends) > 2, "several batches"
    stage.commit(ends[1])
    assert stage.answers == {}
    assert len(settings_of(stage.controller.context)) == LARGE
    stage.perform(stage.node.on_request(begin_request(5, leader_id=3), 1, "begin", BEGIN_MS))
    assert code(stage.answers["large"]) is Errors.NOT_CONTROLLER
    assert settings_of(stage.controller.context) == {}
    assert stage.controller.image.in_transaction and stage.controller.image.end_offset == ends[1]


def test_a_transaction_that_is_committed_is_answered(handle: Any) -> None:
    stage = _with_a_large_decision(handle)
    stage.ask(ASK(), "large")
    stage.commit()
    assert stage.answers == {"large": GOOD}
    assert replayed(stage) == stage.controller.image


def test_a_transaction_begins_behind_a_record_of_its_first_batch(handle: Any) -> None:
    """Otherwise a Kafka controller whose snapshot ends there halts at every start."""
    stage = _with_a_large_decision(handle)
    begin = stage.node.next_offset
    stage.ask(ASK(), "large")
    first = decode_records(_batches(stage, begin)[0].data)
    types = [type(decode_metadata_record(each.value)[0]) for each in list(first)[:2]]
    assert types == [NoOpRecord, BeginTransactionRecord]


def _with_a_large_decision(handle: Any) -> Stage:
    stage = Stage()
    stage.commit()
    handle(decides(GOOD, *(setting(f"name-{k}", "x" * 30_000) for k in range(LARGE))))
    return stage


def _batches(stage: Stage, begin: int) -> Any:
    return split_batches(stage.node.log.read(begin, 1 << 30, stage.node.log.end_offset))[0]


def test_the_first_leader_writes_the_bootstrap_records() -> None:
    stage = Stage(controller_of(bootstrap=Bootstrap.of_features({"metadata.version": 21}, "a test")))
    assert stage.controller.image.features == {"metadata.version": 21}
    stage.commit()
    log = [each.value for each in decode_records(stage.node.log.read(1, 1 << 20, stage.node.log.end_offset))]
    assert len(log) == 3, "one transaction around the level"
    again = Stage(controller_of(), stage.node)
    assert again.node.next_offset == stage.node.next_offset, "nothing more"
    assert again.controller.image == stage.controller.image


@pytest.mark.parametrize("release", ["3.9.1", "4.1.2", "4.3.1"])
def test_bootstrap_records_that_were_taken_back_are_written_by_the_next_leader(release: str) -> None:
    """Though this node has written them once: the log is empty again."""
    active = Active(bootstrap=Bootstrap.of_features({"metadata.version": 21}, "a test"), release=release)
    assert active.controller.image.features == {"metadata.version": 21}
    active.resign()
    assert active.controller.image.features == {}
    active.take(active.controller.on_leader(3, active.controller.image.end_offset))
    assert active.controller.image.features == {"metadata.version": 21}


def test_a_transaction_that_a_leader_left_open_is_aborted(handle: Any) -> None:
    stage = Stage()
    handle(decides(GOOD, Versioned(BeginTransactionRecord(name="x")), setting("lost"), is_atomic=False))
    stage.ask(ASK(), "begin")
    stage.commit()
    again = Stage(controller_of(), stage.node)
    again.commit()
    assert not again.controller.image.in_transaction
    assert settings_of(again.controller.context) == {}
    assert replayed(again) == again.controller.image


def test_periodic_work_is_decided_anew_where_its_append_was_refused() -> None:
    now = [BEGIN_MS]
    work = Task("a task", 100, lambda context, now_ms: Decision(records=[setting(f"at-{context.next_offset}")]))
    stage = Stage(controller_of(lambda: now[0], [work]))
    stage.commit()
    now[0] += 100
    outputs = stage.controller.on_timer()
    end = stage.node.next_offset
    leading.append_control(stage.node, [_leader_change(stage)], BEGIN_MS)
    stage.submit(outputs)
    stage.commit()
    assert settings_of(stage.controller.context) == {f"at-{end + 1}": "1"}
    assert replayed(stage) == stage.controller.image


def test_a_task_that_fails_is_tried_again_in_five_minutes() -> None:
    now = [BEGIN_MS]

    def falls_over(context: Any, now_ms: int) -> Decision:
        raise KeyError("a bug")

    stage = Stage(controller_of(lambda: now[0], [Task("a task", 100, falls_over)]))
    now[0] += 100
    stage.submit(stage.controller.on_timer())
    assert stage.controller.next_due_ms == now[0] + 300_000
    assert stage.node.leads and any("a task" in line for line in stage.log_lines)


def test_many_records_take_effect_as_few_do(handle: Any) -> None:
    """More than 16 go through the kernel that replays logs."""
    stage = Stage()
    handle(decides(GOOD, *(setting(f"name-{k}") for k in range(100))))
    stage.ask(ASK(), "many")
    assert len(settings_of(stage.controller.context)) == 100
    stage.commit()
    assert replayed(stage) == stage.controller.image
    assert stage.controller.image.end_offset == stage.node.next_offset


def test_kraft_version_is_written_before_the_records_of_the_decision(handle: Any) -> None:
    controller = controller_of()
    stage = Stage(controller)
    stage.commit()
    handle(decides(GOOD, Versioned(NoOpRecord()), kraft_version=1))
    outputs = controller.on_request(ASK(), RequestInfo(0, BEGIN_MS), "upgrade")
    assert isinstance(outputs[0], UpgradeKraftVersion) and outputs[0].epoch == stage.node.epoch


def test_a_standby_reads_and_decides_nothing(handle: Any) -> None:
    controller = controller_of()
    controller.raft.leader_id = 7
    handle(decides(GOOD))
    handle(decides(DescribeClusterResponse()), DescribeClusterRequest)
    [refused] = controller.on_request(ASK(), RequestInfo(0, BEGIN_MS), "write")
    [read] = controller.on_request(DescribeClusterRequest(), RequestInfo(0, BEGIN_MS), "read")
    assert isinstance(refused, RequestAnswer) and isinstance(refused.response, UnregisterBrokerResponse)
    assert refused.response.error_message == "The active controller appears to be node 7."
    assert read == RequestAnswer("read", DescribeClusterResponse())


def test_a_snapshot_is_the_state_at_the_last_commit(handle: Any) -> None:
    stage = Stage()
    handle(decides(GOOD, setting("kept")))
    stage.ask(ASK(), "kept")
    stage.commit()
    controller = stage.controller
    stable = controller.stable
    handle(decides(GOOD, setting("open")))
    stage.ask(ASK(), "open")
    release = controller.snapshots.hold(stable)
    slices = snapshot_slices(controller.image, stable, 1, BEGIN_MS, release)
    parts = [next(slices)]  # The memory is being made ready, while the log goes on.
    stage.commit()
    stage.ask(ASK(), "later")
    data = counted_from_zero(b"".join([*parts, *slices]))
    reader = SnapshotReader(OffsetAndEpoch(stable, 1), lambda at, size: SnapshotPiece(data[at : at + size], len(data)))
    standby = controller_of()
    outputs = standby.on_snapshot(reader)
    while outputs and not reader.is_done:
        outputs = standby.on_read_slice()
    standby.on_read_slice()
    assert settings_of(standby.context) == {"kept": "1"}
    assert (standby.image.end_offset, standby.committed) == (stable, stable)


def test_the_journal_is_kept_until_all_snapshots_are_written() -> None:
    snapshots = controller_of(kafka_way=frozenset({ABORTED_RECORDS})).snapshots
    assert isinstance(snapshots.shadow, KafkaShadow) and snapshots.shadow.published is not None
    releases = [snapshots.hold(offset) for offset in (7, 5, 5, 9)]
    kept = []
    for number in (1, 1, 2, 3, 3, 0):
        releases[number]()
        kept.append((snapshots.unneeded(10), snapshots.shadow.published.held))
    assert kept == [(5, 5), (5, 5), (7, 7), (7, 7), (7, 7), (10, None)]
    assert snapshots.unneeded(3) == 3


@pytest.mark.parametrize("release", VERSIONS_BY_RELEASE)
def test_every_release_begins_at_its_own_level(release: str) -> None:
    level = MetadataVersion.parse(release).feature_level
    bootstrap = Bootstrap.of_features({"metadata.version": level}, "a test")
    stage = Stage(controller_of(bootstrap=bootstrap, release=release))
    assert stage.controller.context.version.name == VERSIONS_BY_RELEASE[release].default
    assert np.size(stage.controller.image.table.leader__p) == 0


def test_a_message_that_no_response_can_hold_is_cut() -> None:
    """Names are as long as strings of the wire can be, and messages name them: Kafka's client gets no answer."""
    stage = Stage()
    stage.commit()
    stage.ask(CreateTopicsRequest(topics=[CreatableTopic(name="y" * 32_767), CreatableTopic(name="ü")]), "long", 7)
    answer: Any = stage.answers["long"]
    assert not [*fitting(answer)], "in one part"
    long, short = answer.topics
    assert code(long) is code(short) is Errors.INVALID_TOPIC_EXCEPTION
    assert len(long.error_message) < 2_000 and "yyy..." in long.error_message
    assert short.error_message.startswith("Topic name is invalid") and not short.error_message.endswith("...")
    assert encode(answer, 7)
