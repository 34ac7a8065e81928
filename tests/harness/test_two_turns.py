"""Events between two turns of one loop: standstills, events between a request and its answer, refused appends."""

from collections.abc import Callable, Iterable
from itertools import product
from typing import Any

import pytest

from broker.directories.placements import A, B, C, a_queue, an_image, answer, asked, p, settled
from broker.test_isr_changes import T, change
from broker.test_isr_changes import answer as isr_answer
from controller.kraft.active import Active
from controller.kraft.broker_clusters import SESSION_MS, a_heartbeat, a_registration
from controller.kraft.runtime import BEGIN_MS, Stage, controller_of, decides, pipeline_of, setting, settings_of
from harness.turns import mixed, play
from kcore.broker.directories.assignments import BATCHING_MS, MAX_BACKOFF_MS
from kcore.broker.directories.failures import DirectoryFailures
from kcore.broker.directories.outputs import HeartbeatNow, Outcome
from kcore.broker.lifecycle import machine as lifecycle
from kcore.broker.lifecycle.machine import Answered, BrokerLifecycle, BrokerState, LifecycleConfig, Send
from kcore.broker.replicas.isr_changes import RETRY_MS, IsrChanges
from kcore.controller.kraft.activation import Bootstrap
from kcore.controller.kraft.brokers.heartbeats import Contact
from kcore.controller.kraft.decision import Decision, Versioned
from kcore.controller.kraft.handlers import HANDLERS
from kcore.controller.kraft.kraft_context import RequestInfo
from kcore.controller.kraft.tasks import UNCLEAN, all_tasks
from kcore.protocol_errors import ApiException, Errors
from kcore.raft import leading
from kcore.raft.log.control_records import leader_change
from kcore.schema.broker_lifecycle import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    BrokerRegistrationResponse,
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)
from kcore.schema.metadata_records_brokers import RegisterBrokerRecord
from kcore.schema.metadata_records_topics import PartitionChangeRecord, PartitionRecord, TopicRecord
from kcore.types import Uuid
from kraft_configs import controller_config

ASK, GOOD = UnregisterBrokerRequest, UnregisterBrokerResponse()
INTERVAL_MS = 2_000


# A controller that stood still.


class Timed(Active):
    """An active controller with its periodic work, and unfenced brokers."""

    def __init__(self, brokers: Iterable[int] = (1, 2, 3), release: str = "4.3.1", **settings: Any) -> None:
        config = controller_config(1, "a cluster", release=release)
        settings |= {"broker_session_timeout_ms": SESSION_MS, "release": release}
        super().__init__(tasks=all_tasks(config), **settings)
        for each in brokers:
            self.answer(a_registration(each, each, cluster_id="a cluster"))
        self.beat(*brokers)

    def beat(self, *brokers: int) -> None:
        for each in brokers:
            assert not self.answer(a_heartbeat(self.controller.context, each)).error_code

    def turn(self, now_ms: int) -> None:
        """One call of the timer."""
        self.now_ms = now_ms
        self.take(self.controller.on_timer())
        self.commit()

    def turn_without_leading(self, now_ms: int) -> None:
        self.now_ms = now_ms
        assert self.controller.on_timer() == []

    def pass_time(self, until_ms: int, *beating: int) -> None:
        """A loop that turns whenever something is due, and often."""
        while self.now_ms < until_ms:
            self.beat(*beating)
            self.turn(min(self.now_ms + SESSION_MS // 10, until_ms))

    @property
    def fenced(self) -> set[int]:
        brokers = self.controller.image.brokers
        return {each for each in brokers if brokers[each].fenced}


def test_nobody_is_fenced_by_the_first_turn_after_a_standstill() -> None:
    active = Timed()
    assert active.fenced == set()
    active.pass_time(active.now_ms + SESSION_MS, 1, 2, 3)
    assert active.fenced == set()
    active.turn(active.now_ms + 3 * SESSION_MS)
    assert active.fenced == set(), "their heartbeats wait to be read"
    active.beat(1, 2)
    active.pass_time(active.now_ms + SESSION_MS // 2, 1, 2)
    assert active.fenced == {3}, "it is silent indeed"


def test_a_second_standstill_right_after_the_first_fences_nobody() -> None:
    """Each check of the sessions records its time, also one that fences nobody."""
    active = Timed()
    for _ in range(3):
        active.turn(active.now_ms + 3 * SESSION_MS)
        assert active.fenced == set()
        active.beat(1, 2, 3)


def test_heartbeats_that_were_answered_elsewhere_during_a_standstill_count() -> None:
    active = Timed((1, 2))
    begin_ms = active.now_ms
    epoch = active.controller.image.brokers[1].epoch
    active.now_ms += SESSION_MS - 1
    active.controller.context.on_contacts([Contact(1, epoch, 5, active.now_ms), Contact(1, epoch, 5, begin_ms)])
    active.pass_time(begin_ms + 2 * SESSION_MS - 10)
    assert active.fenced == {2}, "an older contact that comes later takes nothing back"
    active.pass_time(begin_ms + 3 * SESSION_MS)
    assert active.fenced == {1, 2}


def test_a_new_leader_gives_every_broker_a_whole_session_however_late_it_looks() -> None:
    first = Timed()
    first.commit()
    second = Timed((), log=first.log, epoch=2)
    second.turn(second.now_ms + 2 * SESSION_MS)
    assert second.fenced == set()


def test_a_new_incarnation_has_no_session_before_its_first_heartbeat() -> None:
    """The session of the previous incarnation ends with it, however recent its last heartbeat is."""
    active = Timed((1,))
    active.turn(active.now_ms + 10)
    active.beat(1)
    context = active.controller.context
    assert context.heartbeats.has_session(1, context.image, active.now_ms)
    record = RegisterBrokerRecord(broker_id=1, incarnation_id=Uuid(b"n" * 16), broker_epoch=10**6, fenced=True)
    context.apply(record, context.next_offset, active.now_ms)
    assert not context.heartbeats.has_session(1, context.image, active.now_ms)


# Refused appends, and what was decided behind them.


def _append_control(stage: Stage) -> None:
    record = leader_change(stage.node.local.id, stage.node.voters, [])
    leading.append_control(stage.node, [record], BEGIN_MS)


@pytest.fixture
def handle(monkeypatch: pytest.MonkeyPatch) -> Callable[[Any], None]:
    return lambda handler: monkeypatch.setitem(HANDLERS, ASK, handler)


@pytest.mark.parametrize("count", [1, 2, 5])
@pytest.mark.parametrize("committed", [0, 1])
def test_a_refused_append_has_it_and_all_behind_it_decided_once_more(handle: Any, count: int, committed: int) -> None:
    """Earlier appends stay, and every request is answered once, in order."""
    stage = Stage()
    stage.commit()
    handle(lambda context, request, info: Decision(GOOD, [setting(f"at-{context.next_offset}")]))
    for place in range(committed):
        stage.ask(ASK(), f"before-{place}")
    outputs: list[Any] = []
    for place in range(count):
        outputs += stage.controller.on_request(ASK(), RequestInfo(0, BEGIN_MS), place)
    begin = stage.node.next_offset
    _append_control(stage)
    _append_control(stage)
    stage.submit(outputs)
    assert len(pipeline_of(stage.controller).uncommitted) == count + committed, "each append once"
    stage.commit()
    wanted = [*range(begin - committed, begin), *range(begin + 2, begin + 2 + count)]
    assert settings_of(stage.controller.context) == {f"at-{at}": "1" for at in wanted}
    assert [*stage.answers] == [*(f"before-{place}" for place in range(committed)), *range(count)]
    assert not pipeline_of(stage.controller).uncommitted and stage.controller.stable == stage.node.next_offset


def test_a_refused_append_is_refused_again_until_it_is_written(handle: Any) -> None:
    stage = Stage()
    stage.commit()
    handle(lambda context, request, info: Decision(GOOD, [setting(f"at-{context.next_offset}")]))
    outputs = stage.controller.on_request(ASK(), RequestInfo(0, BEGIN_MS), "asked")
    for _ in range(10):
        [append] = outputs
        _append_control(stage)
        outputs = stage.controller.on_refused(append, stage.node.next_offset)
    end = stage.node.next_offset
    stage.submit(outputs)
    stage.commit()
    assert settings_of(stage.controller.context) == {f"at-{end}": "1"} and [*stage.answers] == ["asked"]


def test_a_resignation_answers_what_was_refused_and_decided_again(handle: Any) -> None:
    stage = Stage()
    stage.commit()
    handle(decides(GOOD, setting("a")))
    outputs = stage.controller.on_request(ASK(), RequestInfo(0, BEGIN_MS), "asked")
    _append_control(stage)
    stage.controller.on_refused(outputs[0], stage.node.next_offset)
    stage.submit(stage.controller.on_resigned(stage.controller.epoch or 0))
    answer_: Any = stage.answers["asked"]
    assert Errors(answer_.error_code) is Errors.NOT_CONTROLLER and settings_of(stage.controller.context) == {}


def test_registrations_whose_records_are_taken_back_are_looked_at_again() -> None:
    """Whatever is kept by broker must follow all of them, such as connections that the answer loop has adopted."""
    active = Timed((1, 2))
    heartbeats = active.controller.context.heartbeats
    heartbeats.changed.clear()
    outputs = active.controller.on_request(a_registration(3, 3, cluster_id="a cluster"), _info(), "new")
    [append] = [each for each in outputs if hasattr(each, "batches")]
    heartbeats.changed.clear()
    active.controller.on_refused(append, active.controller.image.end_offset + 5)
    assert heartbeats.changed >= {1, 2}


def test_3_9_1_looks_at_what_is_decided_again_behind_a_refused_append(handle: Any) -> None:
    """The same offsets have other records by then: a partition lost its leader."""
    active = Timed((1, 2), "3.9.1", bootstrap=Bootstrap.of_features({"metadata.version": 21}, "a test"))
    topic_id = Uuid(b"t" * 16)
    partition = PartitionRecord(
        topic_id=topic_id, partition_id=0, replicas=[1, 2], isr=[1, 2], leader=1, leader_epoch=0
    )
    partition.partition_epoch = 0
    handle(decides(GOOD, Versioned(TopicRecord(name="t", topic_id=topic_id)), Versioned(partition)))
    active.ask(ASK())
    active.commit()
    lost = Versioned(PartitionChangeRecord(topic_id=topic_id, partition_id=0, leader=-1))
    turns = iter([[setting("a"), setting("b")], [lost, setting("b")]])
    handle(lambda context, request, info: Decision(GOOD, next(turns)))
    [append] = active.controller.on_request(ASK(), _info(), "asked")
    assert UNCLEAN not in active.controller.periodic._due_ms
    active.controller.on_refused(append, append.expected_offset + 1)
    handle(decides(GOOD, setting("c")))
    active.controller.on_request(ASK(), _info(), "next")
    assert UNCLEAN in active.controller.periodic._due_ms


def _info() -> RequestInfo:
    return RequestInfo(4, BEGIN_MS, BEGIN_MS)


# Assignments of replicas to directories.


@pytest.mark.parametrize("outcome", ["no answer", "refused", "left out", "accepted"])
@pytest.mark.parametrize("second", [A, B], ids=["the same directory", "another directory"])
def test_the_newest_assignment_is_sent_whatever_became_of_the_request_in_flight(outcome: str, second: Uuid) -> None:
    def story(order: str) -> None:
        image = an_image(1, C)
        queue, now_ms, sent = a_queue(image), 0, []

        def send() -> None:
            nonlocal now_ms
            now_ms = max(now_ms, queue.next_deadline_ms or 0)
            sent.append(queue.next_request(now_ms))

        def fail() -> None:
            request = sent[-1]
            if outcome == "no answer":
                queue.on_response(None, now_ms)
            elif outcome == "refused":
                queue.on_response(answer(request, lambda each: Errors.UNKNOWN_SERVER_ERROR), now_ms)
            else:
                queue.on_response(answer(request, without=[p(0)] if outcome == "left out" else []), now_ms)

        queue.enqueue(p(0), A, "first", now_ms, ticket=1)
        events: dict[str, Callable[[], object]] = {
            "s": send,
            "f": fail,
            "e": lambda: queue.enqueue(p(0), second, "second", now_ms, ticket=2),
        }
        play([events[each] for each in order])
        assigned = settled(queue)
        while (deadline := queue.next_deadline_ms) is not None:
            now_ms = max(now_ms, deadline)
            if (request := queue.next_request(now_ms)) is not None:
                sent.append(request)
                queue.on_response(answer(request), now_ms)
                more = settled(queue)
                assert not assigned.keys() & more.keys(), "each waits for one outcome"
                assigned |= more
        assert asked(sent[-1]) == {p(0): second} and queue.queued == 0
        assert assigned[2] is Outcome.ACCEPTED
        is_done = second == A or (outcome == "accepted" and order.index("f") < order.index("e"))
        assert assigned[1] is (Outcome.ACCEPTED if is_done else Outcome.SUPERSEDED)

    orders = {"".join(each) for each in mixed("sf", "e")}
    assert orders == {"sfe", "sef", "esf"}
    for order in orders:
        story(order)


def test_a_new_entry_does_not_end_the_back_off_after_failures() -> None:
    queue, now_ms = a_queue(an_image(20)), 0
    queue.enqueue(p(0), A, "first", now_ms)
    for failures in range(1, 15):
        deadline = queue.next_deadline_ms
        assert deadline is not None
        now_ms = deadline
        assert queue.next_request(now_ms) is not None
        queue.on_response(None, now_ms)
        queue.enqueue(p(failures), A, "more", now_ms)
        wait_ms = min(BATCHING_MS << failures, MAX_BACKOFF_MS)
        assert queue.next_deadline_ms == now_ms + wait_ms
    queue.enqueue(p(19), B, "urgent", now_ms)
    queue.on_directory_failed(B)
    assert queue.next_deadline_ms == now_ms + MAX_BACKOFF_MS, "nor does a failed directory"
    now_ms += MAX_BACKOFF_MS
    queue.on_response(answer(queue.next_request(now_ms)), now_ms)
    queue.enqueue(p(1), B, "again", now_ms)
    assert queue.next_deadline_ms == now_ms, "a success does"


def test_a_replica_that_went_and_came_back_elsewhere_is_what_the_image_says() -> None:
    """Earlier assignments that the controller got for it do not matter any more."""
    image = an_image(1, C)
    queue = a_queue(image)
    queue.enqueue(p(0), A, "first", 0)
    queue.on_response(answer(queue.next_request(1_000)), 1_000)
    del image[p(0)]
    queue.on_image([p(0)], [None])
    image[p(0)] = B
    queue.enqueue(p(0), B, "it is there", 2_000)
    assert queue.next_request(10_000) is None and queue.queued == 0


# ISR changes.


@pytest.mark.parametrize("failure", ["no answer", "top level", "left out"])
def test_isr_changes_that_come_while_a_request_is_in_flight_are_in_the_next(failure: str) -> None:
    def story(order: str) -> None:
        changes = IsrChanges(1)
        changes.submit(change(index=0))
        in_flight = False

        def send() -> None:
            nonlocal in_flight
            changes.next_request(7)
            in_flight = True

        def fail() -> None:
            if failure == "no answer":
                changes.failed(1_000)
            elif failure == "top level":
                response = isr_answer(0)
                response.error_code, response.topics = int(Errors.NOT_CONTROLLER), []
                assert changes.answered(response, 1_000) == []
            else:
                assert changes.answered(isr_answer(9), 1_000) == []

        events = {"s": send, "f": fail, "c": lambda: changes.submit(change(index=1))}
        play([events[each] for each in order])
        assert changes.wait_ms(1_000) == (0 if failure == "left out" else RETRY_MS)
        [topic] = changes.next_request(7).topics
        assert {each.partition_index for each in topic.partitions} == {0, 1} and topic.topic_id == T

    for order in {"".join(each) for each in mixed("sf", "c")}:
        story(order)


# A broker's registration and heartbeats.


def _lifecycle() -> tuple[BrokerLifecycle, list[Any]]:
    config = LifecycleConfig(1, "c", Uuid(b"i" * 16), [], [], [A], heartbeat_interval_ms=INTERVAL_MS)
    machine = BrokerLifecycle(config, lambda: 5, DirectoryFailures([A, B], 2, timeout_ms=30_000))
    effects = machine.on_event(lifecycle.Started(), 0)
    effects += machine.on_event(Answered(BrokerRegistrationResponse(broker_epoch=7)), 0)
    return machine, effects


WISHES = {
    "ready": lifecycle.ReadyToUnfence(),
    "now": HeartbeatNow(),
    "cordoned": lifecycle.DirectoriesCordoned([A]),
    "register": lifecycle.RegisterAgain(),
    "shut down": lifecycle.ShutdownRequested(),
}


def _running() -> BrokerLifecycle:
    machine, _ = _lifecycle()
    machine.on_event(lifecycle.ReadyToUnfence(), 0)
    for _ in range(4):
        machine.on_event(Answered(BrokerHeartbeatResponse(is_caught_up=True, is_fenced=False)), 0)
        machine.on_event(lifecycle.Timer(), machine.next_deadline_ms or 0)
    assert machine.state is BrokerState.RUNNING and machine.in_flight is not None
    return machine


@pytest.mark.parametrize(("wish", "failure"), [*product(WISHES, [None, Errors.NOT_CONTROLLER, Errors.NONE])])
def test_a_wish_that_comes_while_a_heartbeat_is_in_flight_is_sent_next(wish: str, failure: Errors | None) -> None:
    """At once after an answer; after a failure only when the interval is over."""
    machine, now_ms = _running(), 50_000
    assert machine.on_event(WISHES[wish], now_ms) == (
        [lifecycle.StateChanged(BrokerState.PENDING_CONTROLLED_SHUTDOWN)] if wish == "shut down" else []
    )
    response = None if failure is None else BrokerHeartbeatResponse(error_code=int(failure), is_fenced=False)
    effects = machine.on_event(Answered(response), now_ms)
    sent = [each.request for each in effects if isinstance(each, Send)]
    if failure is Errors.NONE:
        assert len(sent) == 1
    else:
        assert not sent and machine.next_deadline_ms == now_ms + INTERVAL_MS
        sent = [each.request for each in machine.on_event(lifecycle.Timer(), now_ms + INTERVAL_MS)]  # type: ignore[union-attr]
    [request] = sent
    assert isinstance(request, BrokerHeartbeatRequest) is (wish != "register")
    if wish == "shut down":
        assert request.want_shut_down
    elif wish == "cordoned":
        assert request.cordoned_log_dirs == [A]
    assert machine.on_event(WISHES["now"], now_ms) == [], "one at a time"


def test_a_timer_that_comes_late_sends_one_heartbeat() -> None:
    machine = _running()
    machine.on_event(Answered(BrokerHeartbeatResponse(is_fenced=False)), 60_000)
    late_ms = 60_000 + 10 * INTERVAL_MS
    assert len(machine.on_event(lifecycle.Timer(), late_ms)) == 1
    assert machine.on_event(lifecycle.Timer(), late_ms) == [] and machine.next_deadline_ms is None


def test_a_controller_that_resigned_waits_for_no_time() -> None:
    """Its edge would wake it again and again for work that is not its own."""
    active = Timed((1,))
    assert active.controller.next_due_ms is not None
    active.resign()
    assert active.controller.next_due_ms is None
    active.turn_without_leading(active.now_ms + 10 * SESSION_MS)
    active.take(active.controller.on_leader(2, active.controller.image.end_offset))
    assert (active.controller.next_due_ms or 0) > active.now_ms, "every period begins anew"


def test_what_a_client_used_of_its_quota_counts_for_the_next_leadership_of_the_node() -> None:
    active = Timed((1,))
    quotas = active.controller.context.mutation_quotas
    rates = {(("user", "alice"),): {"controller_mutation_rate": 1.0}}
    quotas.of(rates, "alice", None, 0, is_strict=True).record(1_000)
    active.resign()
    active.take(active.controller.on_leader(2, active.controller.image.end_offset))
    with pytest.raises(ApiException):
        active.controller.context.mutation_quotas.of(rates, "alice", None, 0, is_strict=True).record(1)


def test_controllers_that_begin_have_nobody_to_fence() -> None:
    """A standby's timer does nothing, whatever the time is."""
    assert controller_of(tasks=all_tasks(controller_config(1, "a cluster"))).on_timer() == []
