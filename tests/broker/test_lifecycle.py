"""The lifecycle of a KRaft broker: every state with every event, and random events."""

from collections.abc import Sequence
from itertools import product

import pytest
from hypothesis import settings as limits
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kcore.broker.directories.failures import DirectoryFailures
from kcore.broker.directories.outputs import HeartbeatNow
from kcore.broker.lifecycle.machine import (
    FIRST_SHUTDOWN_INTERVAL_MS,
    STARTING_INTERVAL_MS,
    TRANSITIONS,
    Answered,
    BrokerLifecycle,
    BrokerState,
    DirectoriesCordoned,
    Effect,
    LifecycleConfig,
    ReadyToUnfence,
    Refused,
    RegisterAgain,
    Registered,
    Send,
    ShutdownRequested,
    Started,
    StateChanged,
    Step,
    Timer,
    next_state,
)
from kcore.protocol_errors import Errors
from kcore.schema.broker_lifecycle import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    Feature,
    Listener,
)
from kcore.types import Uuid

STARTING, RECOVERY, RUNNING, PENDING, ENDING = BrokerState
DIRECTORIES = [Uuid(bytes([9 - number]) * 16) for number in range(3)]
LISTENER = Listener(name="PLAINTEXT", host="b1", port=9092, security_protocol=0)
FEATURE = Feature(name="metadata.version", min_supported_version=7, max_supported_version=30)
INTERVAL_MS = 2_000
EPOCH = 40


def made(**settings: object) -> BrokerLifecycle:
    config = LifecycleConfig(1, "c", Uuid(b"i" * 16), [LISTENER], [FEATURE], DIRECTORIES, **settings)  # type: ignore[arg-type]
    return BrokerLifecycle(config, lambda: 77, DirectoryFailures(DIRECTORIES, len(DIRECTORIES) + 1))


def answer(**fields: object) -> Answered:
    return Answered(BrokerHeartbeatResponse(**fields))


REGISTERED = Answered(BrokerRegistrationResponse(broker_epoch=EPOCH))
CAUGHT_UP = answer(is_caught_up=True)
UNFENCED = answer(is_caught_up=True, is_fenced=False)
MAY_END = answer(is_caught_up=True, should_shut_down=True)


class Life:
    """A BrokerLifecycle with a clock that the test sets."""

    def __init__(self, **settings: object) -> None:
        self.machine, self.now_ms = made(**settings), 1_000

    def take(self, *events: object) -> list[Effect]:
        """The effects of the last one."""
        effects: list[Effect] = []
        for event in events:
            effects = self.machine.on_event(event, self.now_ms)  # type: ignore[arg-type]
        return effects

    def fail(self, directory: Uuid) -> list[Effect]:
        self.machine.failures.on_failed(directory, self.now_ms)
        return self.take(HeartbeatNow())

    def wake(self) -> list[Effect]:
        """At the next deadline."""
        assert self.machine.next_deadline_ms is not None
        self.now_ms = self.machine.next_deadline_ms
        return self.take(Timer())

    def until(self, state: BrokerState) -> "Life":
        """A heartbeat is due in that state, none is in flight."""
        self.take(Started(), REGISTERED)
        if state is STARTING:
            self.take(answer())
            return self
        self.take(CAUGHT_UP)
        if state is not RECOVERY:
            self.take(ReadyToUnfence(), UNFENCED)
        if state is PENDING:
            self.take(ShutdownRequested(), answer(is_fenced=False))
        assert self.machine.state is state and self.machine.in_flight is None
        return self


def sent(effects: Sequence[Effect]) -> BrokerRegistrationRequest | BrokerHeartbeatRequest:
    [request] = [each.request for each in effects if isinstance(each, Send)]
    return request


def test_a_life() -> None:
    life = Life(rack="r", previous_broker_epoch=12)
    registration = sent(life.take(Started()))
    assert registration == BrokerRegistrationRequest(
        broker_id=1,
        cluster_id="c",
        incarnation_id=Uuid(b"i" * 16),
        listeners=[LISTENER],
        features=[FEATURE],
        rack="r",
        log_dirs=DIRECTORIES[::-1],  # In the order of their ids.
        previous_broker_epoch=12,
    )
    registered, first = life.take(REGISTERED)
    assert registered == Registered(EPOCH)
    assert sent([first]) == BrokerHeartbeatRequest(
        broker_id=1, broker_epoch=EPOCH, current_metadata_offset=77, want_fence=True, want_shut_down=False
    )
    assert life.take(answer()) == [] and life.machine.next_deadline_ms == life.now_ms + STARTING_INTERVAL_MS
    life.wake()
    assert life.take(CAUGHT_UP) == [StateChanged(RECOVERY)]
    assert sent(life.take(ReadyToUnfence())).want_fence is False  # type: ignore[union-attr]
    assert life.take(UNFENCED) == [StateChanged(RUNNING)]
    assert life.machine.next_deadline_ms == life.now_ms + INTERVAL_MS
    changed, last = life.take(ShutdownRequested())
    assert changed == StateChanged(PENDING) and sent([last]).want_shut_down  # type: ignore[union-attr]
    life.take(answer(is_fenced=False))
    assert life.machine.next_deadline_ms == life.now_ms + FIRST_SHUTDOWN_INTERVAL_MS
    life.wake()
    life.take(answer(is_fenced=False))
    assert life.machine.next_deadline_ms == life.now_ms + INTERVAL_MS
    life.wake()
    assert life.take(MAY_END) == [StateChanged(ENDING)]
    assert life.machine.next_deadline_ms is None and life.take(Timer()) == []


# The next state and the requests of each event in each state, with no request in flight.
NOTHING, REGISTRATION, HEARTBEAT = None, BrokerRegistrationRequest, BrokerHeartbeatRequest
ALL = (STARTING, RECOVERY, RUNNING, PENDING)
TABLE = [
    *((state, ReadyToUnfence(), state, HEARTBEAT) for state in ALL),
    *((state, HeartbeatNow(), state, HEARTBEAT) for state in ALL),
    *((state, RegisterAgain(), state, REGISTRATION) for state in ALL),
    *((state, Timer(), state, NOTHING) for state in ALL),
    (STARTING, DirectoriesCordoned(DIRECTORIES), STARTING, NOTHING),  # It may not know what is configured yet.
    *((state, DirectoriesCordoned(DIRECTORIES), state, HEARTBEAT) for state in (RECOVERY, RUNNING, PENDING)),
    (STARTING, ShutdownRequested(), ENDING, NOTHING),
    (RECOVERY, ShutdownRequested(), ENDING, NOTHING),
    (RUNNING, ShutdownRequested(), PENDING, HEARTBEAT),
    (PENDING, ShutdownRequested(), PENDING, NOTHING),
]


@pytest.mark.parametrize(("state", "event", "after", "kind"), TABLE, ids=str)
def test_every_event_in_every_state(state: BrokerState, event: object, after: BrokerState, kind: type | None) -> None:
    life = Life().until(state)
    effects = life.take(event)
    assert life.machine.state is after
    assert [type(each.request) for each in effects if isinstance(each, Send)] == ([] if kind is None else [kind])


ANSWERS = [
    (STARTING, UNFENCED, RECOVERY),
    (STARTING, CAUGHT_UP, RECOVERY),
    (RECOVERY, CAUGHT_UP, RECOVERY),
    (RECOVERY, UNFENCED, RUNNING),
    (RUNNING, CAUGHT_UP, RUNNING),  # Fenced by the controller: the next heartbeats ask to be unfenced.
    (RUNNING, MAY_END, RUNNING),  # The broker has not asked to be unfenced.
    (PENDING, UNFENCED, PENDING),
    (PENDING, MAY_END, ENDING),
]


@pytest.mark.parametrize(("state", "answered", "after"), ANSWERS, ids=str)
def test_every_answer_in_every_state(state: BrokerState, answered: Answered, after: BrokerState) -> None:
    life = Life().until(state)
    life.wake()
    life.take(answered)
    assert life.machine.state is after and life.machine.in_flight is None


def test_the_table_of_states() -> None:
    for state, step in product(BrokerState, Step):
        if (state, step) in TRANSITIONS:
            assert next_state(state, step, "") is TRANSITIONS[state, step]
        else:
            with pytest.raises(AssertionError, match="the story"):
                next_state(state, step, "the story")


@pytest.mark.parametrize("state", [STARTING, RECOVERY, RUNNING, PENDING])
@pytest.mark.parametrize("failure", [None, Errors.NOT_CONTROLLER, Errors.UNKNOWN_SERVER_ERROR])
@pytest.mark.covers("C14")
def test_a_failed_heartbeat_goes_again_after_the_interval(state: BrokerState, failure: Errors | None) -> None:
    life = Life().until(state)
    life.wake()
    life.fail(DIRECTORIES[1])  # It would go at once behind an answer.
    effects = life.take(Answered(None) if failure is None else answer(error_code=failure))
    assert not [each for each in effects if isinstance(each, Send)]
    assert life.machine.next_deadline_ms == life.now_ms + INTERVAL_MS
    assert sent(life.wake()).offline_log_dirs == [DIRECTORIES[1]]  # type: ignore[union-attr]


@pytest.mark.covers("C14")
def test_requests_for_a_heartbeat_at_once_are_one_heartbeat() -> None:
    life = Life().until(RUNNING)
    life.wake()
    for directory in DIRECTORIES[:2]:
        assert not life.fail(directory), "another one is in flight"
    for event in (ReadyToUnfence(), DirectoriesCordoned(DIRECTORIES)):
        assert not life.take(event), "another one is in flight"
    assert [*map(type, life.take(ShutdownRequested()))] == [StateChanged]
    request = sent(life.take(answer(is_fenced=False)))
    assert isinstance(request, BrokerHeartbeatRequest)
    assert request.offline_log_dirs == DIRECTORIES[:2] and request.want_shut_down
    assert request.cordoned_log_dirs == DIRECTORIES


def test_a_duplicate_registration_is_tried_until_the_time_is_up() -> None:
    life = Life(registration_timeout_ms=5_000)
    life.take(Started())
    tries = 1
    while life.machine.state is STARTING:
        if life.machine.in_flight is not None:
            refusal = BrokerRegistrationResponse(error_code=Errors.DUPLICATE_BROKER_REGISTRATION)
            effects = life.take(Answered(refusal))
            assert [type(each) for each in effects] == [Refused]
        tries += any(isinstance(each, Send) for each in life.wake())
    assert tries == 3 and life.machine.state is ENDING


def test_a_stale_epoch_is_registered_anew() -> None:
    life = Life().until(RUNNING)
    life.wake()
    life.take(answer(error_code=Errors.STALE_BROKER_EPOCH))
    assert isinstance(sent(life.wake()), BrokerRegistrationRequest)
    registered, _ = life.take(Answered(BrokerRegistrationResponse(broker_epoch=EPOCH + 9)))
    assert registered == Registered(EPOCH + 9) and life.machine.state is RUNNING


def test_an_acknowledged_failure_stays_in_every_heartbeat() -> None:
    life = Life().until(RUNNING)
    life.fail(DIRECTORIES[0])
    life.take(UNFENCED)
    for _ in range(5):
        assert sent(life.wake()).offline_log_dirs == [DIRECTORIES[0]]  # type: ignore[union-attr]
        life.take(UNFENCED)


class AnyEvents(RuleBasedStateMachine):
    """Events in any order, and a controller that answers anything; time goes on."""

    def __init__(self) -> None:
        super().__init__()
        self.machine, self.now_ms = made(), 0
        self.in_flight = 0
        self.failed: set[Uuid] = set()
        self.failures_ms: list[int] = []

    def take(self, event: object) -> None:
        effects = self.machine.on_event(event, self.now_ms)  # type: ignore[arg-type]
        for each in effects:
            if isinstance(each, Send):
                self.in_flight += 1
                assert self.in_flight == 1
                assert not self.failures_ms or self.now_ms >= self.failures_ms[-1]
                if isinstance(each.request, BrokerHeartbeatRequest):
                    assert {*each.request.offline_log_dirs} == self.failed
                    assert each.request.broker_epoch == self.machine.broker_epoch >= 0

    @initialize()
    def start(self) -> None:
        self.take(Started())

    @rule(
        event=st.sampled_from(
            [ReadyToUnfence(), RegisterAgain(), DirectoriesCordoned(DIRECTORIES), DirectoriesCordoned(None), Timer()]
        )
    )
    def happens(self, event: object) -> None:
        self.failures_ms.clear()  # A request by a new event may be sent at once.
        self.take(event)

    @rule(directory=st.sampled_from(DIRECTORIES))
    def fails(self, directory: Uuid) -> None:
        self.failures_ms.clear()
        self.failed.add(directory)
        self.machine.failures.on_failed(directory, self.now_ms)
        self.take(HeartbeatNow())

    @rule()
    @precondition(lambda self: self.machine.state is not STARTING)
    def stops(self) -> None:
        self.failures_ms.clear()
        self.take(ShutdownRequested())

    @rule(wait_ms=st.sampled_from([1, 10, 500, 2_000]))
    def waits(self, wait_ms: int) -> None:
        self.now_ms += wait_ms
        while (due_ms := self.machine.next_deadline_ms) is not None and due_ms <= self.now_ms:
            self.take(Timer())

    @rule(
        error=st.sampled_from([None, Errors.NONE, Errors.STALE_BROKER_EPOCH, Errors.DUPLICATE_BROKER_REGISTRATION]),
        flags=st.tuples(st.booleans(), st.booleans(), st.booleans()),
    )
    @precondition(lambda self: self.machine.in_flight is not None)
    def answers(self, error: Errors | None, flags: tuple[bool, bool, bool]) -> None:
        request = self.machine.in_flight
        self.in_flight = 0
        if error is not Errors.NONE:
            self.failures_ms = [self.now_ms + INTERVAL_MS]
        if error is None:
            self.take(Answered(None))
        elif isinstance(request, BrokerRegistrationRequest):
            self.take(Answered(BrokerRegistrationResponse(error_code=error, broker_epoch=self.now_ms)))
        else:
            caught_up, fenced, shut_down = flags
            self.take(answer(error_code=error, is_caught_up=caught_up, is_fenced=fenced, should_shut_down=shut_down))

    @invariant()
    def something_is_to_come(self) -> None:
        """A broker that has not ended sends again, or waits for an answer."""
        machine = self.machine
        if machine.state is not ENDING and self.now_ms:
            assert machine.in_flight is not None or machine.next_deadline_ms is not None


TestAnyEvents = AnyEvents.TestCase
TestAnyEvents.settings = limits(max_examples=60, stateful_step_count=40, deadline=None)
