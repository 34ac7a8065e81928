"""Sends a KRaft broker's registrations and heartbeats to the active controller, one at a time.

Source: BrokerLifecycleManager of 4.3.1. One departure: after STALE_BROKER_EPOCH the broker registers again (an
UnregisterBroker request removed its registration). Kafka's broker repeats the refused heartbeat for ever.
`directories/failures.py` tracks the offline directories.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final, TypeAlias

from kcore.broker.directories.failures import DirectoryFailures
from kcore.broker.directories.outputs import HeartbeatNow
from kcore.constants import UNKNOWN_BROKER_EPOCH
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


class BrokerState(Enum):
    """The states of a broker while its process runs, with Kafka's names."""

    STARTING = "STARTING"  # The broker registers, and catches up with the metadata log.
    RECOVERY = "RECOVERY"  # The broker has caught up, and applies the metadata log to its replicas; it is still fenced.
    RUNNING = "RUNNING"  # The broker is unfenced.
    PENDING_CONTROLLED_SHUTDOWN = "PENDING_CONTROLLED_SHUTDOWN"  # The controller moves its leaders to other brokers.
    SHUTTING_DOWN = "SHUTTING_DOWN"  # The broker sends no more requests.


class Step(Enum):
    """An event that changes a broker's state."""

    CAUGHT_UP = "a heartbeat's answer has isCaughtUp"
    UNFENCED = "a heartbeat's answer has no isFenced"
    SHUTDOWN_REQUESTED = "the process was asked to stop"
    MAY_SHUT_DOWN = "a heartbeat's answer has shouldShutDown"
    REGISTRATION_TIMED_OUT = "the broker could not register in time"


_STARTING, _RECOVERY, _RUNNING, _PENDING, _ENDING = BrokerState

TRANSITIONS: Final[dict[tuple[BrokerState, Step], BrokerState]] = {
    (_STARTING, Step.CAUGHT_UP): _RECOVERY,
    (_RECOVERY, Step.UNFENCED): _RUNNING,
    (_RUNNING, Step.SHUTDOWN_REQUESTED): _PENDING,
    (_PENDING, Step.MAY_SHUT_DOWN): _ENDING,
    (_PENDING, Step.SHUTDOWN_REQUESTED): _PENDING,
    # A broker that was never unfenced leads no partitions, so it stops without asking the controller.
    (_STARTING, Step.SHUTDOWN_REQUESTED): _ENDING,
    (_RECOVERY, Step.SHUTDOWN_REQUESTED): _ENDING,
    (_ENDING, Step.SHUTDOWN_REQUESTED): _ENDING,
    (_STARTING, Step.REGISTRATION_TIMED_OUT): _ENDING,
}


def next_state(state: BrokerState, step: Step, story: object) -> BrokerState:
    """The next state. An illegal step raises AssertionError with `story`, the broker's attributes."""
    after = TRANSITIONS.get((state, step))
    assert after is not None, f"{step.value}, in state {state.value}: {story}"
    return after


STARTING_INTERVAL_MS: Final = 10  # The interval of heartbeats until the broker has caught up.
FIRST_SHUTDOWN_INTERVAL_MS: Final = 50  # The interval after the first heartbeat with `want_shut_down`.


@dataclass(frozen=True)
class LifecycleConfig:
    """The broker's identity and Kafka's settings; times in milliseconds."""

    broker_id: int
    cluster_id: str
    incarnation_id: Uuid  # New with every start of the process.
    listeners: Sequence[Listener]
    features: Sequence[Feature]
    directory_ids: Sequence[Uuid]  # All log directories that were online at the start.
    rack: str | None = None
    is_migrating_zk_broker: bool = False  # The broker runs in ZooKeeper mode, and also registers in KRaft (KIP-866).
    previous_broker_epoch: int = UNKNOWN_BROKER_EPOCH  # The epoch of the last run, if it ended cleanly (KIP-966).
    heartbeat_interval_ms: int = 2_000  # broker.heartbeat.interval.ms
    registration_timeout_ms: int | None = 60_000  # initial.broker.registration.timeout.ms; None: no time-out.


@dataclass(frozen=True, slots=True)
class Started:
    """The process has started; the broker sends its first registration."""


@dataclass(frozen=True, slots=True)
class Timer:
    """The time is `next_deadline_ms` or later."""


@dataclass(frozen=True, slots=True)
class Answered:
    """The controller's answer to the request in flight; None if it did not answer within the interval."""

    response: BrokerRegistrationResponse | BrokerHeartbeatResponse | None


@dataclass(frozen=True, slots=True)
class ReadyToUnfence:
    """The replicas have applied the metadata log, so that the broker may be unfenced."""


@dataclass(frozen=True, slots=True)
class DirectoriesCordoned:
    """The list of all cordoned directories, which get no new replicas (KIP-1066), has changed.

    None: the metadata.version has no cordoned directories.
    """

    directory_ids: Sequence[Uuid] | None


@dataclass(frozen=True, slots=True)
class RegisterAgain:
    """The new metadata.version needs a registration with more fields (BrokerRegistrationTracker)."""


@dataclass(frozen=True, slots=True)
class ShutdownRequested:
    """The process was asked to stop."""


Event: TypeAlias = (
    Started | Timer | Answered | ReadyToUnfence | HeartbeatNow | DirectoriesCordoned | RegisterAgain | ShutdownRequested
)


@dataclass(frozen=True, slots=True)
class Send:
    """Send a request to the active controller; exactly one `Answered` must follow, with None after a time-out."""

    request: BrokerRegistrationRequest | BrokerHeartbeatRequest


@dataclass(frozen=True, slots=True)
class Registered:
    """The controller has registered the broker under this epoch."""

    broker_epoch: int


@dataclass(frozen=True, slots=True)
class StateChanged:
    """The broker has entered this state."""

    state: BrokerState


@dataclass(frozen=True, slots=True)
class Refused:
    """The controller answered the request with an error; the broker sends the request again later."""

    request: BrokerRegistrationRequest | BrokerHeartbeatRequest
    error: Errors


Effect: TypeAlias = Send | Registered | StateChanged | Refused


@dataclass
class BrokerLifecycle:
    """The lifecycle of one process. `metadata_offset` returns the offset of the last applied metadata record."""

    config: LifecycleConfig
    metadata_offset: Callable[[], int]
    failures: DirectoryFailures
    state: BrokerState = BrokerState.STARTING
    broker_epoch: int = UNKNOWN_BROKER_EPOCH
    is_registered: bool = False
    cordoned: Sequence[Uuid] | None = None
    in_flight: BrokerRegistrationRequest | BrokerHeartbeatRequest | None = None
    _is_ready: bool = False
    _send_at_ms: int | None = None
    _is_wanted_next: bool = False  # Send the next request at once, due to an event while a request was in flight.
    _register_until_ms: int | None = None  # The deadline of the registration; None once the broker was registered.
    _shutdown_answers: int = 0

    @property
    def next_deadline_ms(self) -> int | None:
        """When a `Timer` event is due; None if none is."""
        deadlines = [self._send_at_ms, self._register_until_ms]
        return min((each for each in deadlines if each is not None), default=None)

    def on_event(self, event: Event, now_ms: int) -> list[Effect]:
        """Handles an event. Returns the effects that the server must perform, in order."""
        if self.state is BrokerState.SHUTTING_DOWN:
            return []
        match event:
            case Started():
                if self.config.registration_timeout_ms is not None:
                    self._register_until_ms = now_ms + self.config.registration_timeout_ms
                return self._send_now(now_ms)
            case Timer():
                return self._on_timer(now_ms)
            case Answered(response):
                return self._on_answer(response, now_ms)
            case ReadyToUnfence():
                self._is_ready = True
                return self._send_now(now_ms)
            case HeartbeatNow():
                return self._send_now(now_ms) if self.is_registered else []
            case DirectoriesCordoned(directory_ids):
                return self._cordon(directory_ids, now_ms)
            case RegisterAgain():
                self.is_registered = False
                return self._send_now(now_ms)
            case ShutdownRequested():
                return self._shut_down(now_ms)

    # Requests.

    def _send_now(self, now_ms: int) -> list[Effect]:
        return self._send_after(0, now_ms)

    def _send_after(self, delay_ms: int, now_ms: int) -> list[Effect]:
        """Sends the next request after the delay, or at once if an event came while a request was in flight."""
        delay_ms = 0 if self._is_wanted_next else delay_ms
        self._is_wanted_next = False
        if delay_ms:
            self._send_at_ms = now_ms + delay_ms
            return []
        self._send_at_ms = None
        if self.in_flight is not None:
            self._is_wanted_next = True
            return []
        self.in_flight = self._heartbeat() if self.is_registered else self._registration()
        return [Send(self.in_flight)]

    def _after_failure(self, now_ms: int) -> list[Effect]:
        """Sends the next request after the heartbeat interval, never at once."""
        self._is_wanted_next = False
        return self._send_after(self.config.heartbeat_interval_ms, now_ms)

    def _registration(self) -> BrokerRegistrationRequest:
        config = self.config
        return BrokerRegistrationRequest(
            broker_id=config.broker_id,
            cluster_id=config.cluster_id,
            is_migrating_zk_broker=config.is_migrating_zk_broker,
            incarnation_id=config.incarnation_id,
            listeners=[*config.listeners],
            features=[*config.features],
            rack=config.rack,
            log_dirs=sorted(config.directory_ids),
            previous_broker_epoch=config.previous_broker_epoch,
        )

    def _heartbeat(self) -> BrokerHeartbeatRequest:
        return BrokerHeartbeatRequest(
            broker_id=self.config.broker_id,
            broker_epoch=self.broker_epoch,
            current_metadata_offset=self.metadata_offset(),
            want_fence=not self._is_ready,
            want_shut_down=self.state is BrokerState.PENDING_CONTROLLED_SHUTDOWN,
            offline_log_dirs=self.failures.offline_log_dirs,
            cordoned_log_dirs=self._cordoned_log_dirs(),
        )

    def _cordoned_log_dirs(self) -> list[Uuid] | None:
        """The cordoned directories for a heartbeat.

        None until the broker has caught up: before, it may not have read its dynamic configuration.
        """
        if self.state is BrokerState.STARTING or self.cordoned is None:
            return None
        return [*self.cordoned]

    def _on_timer(self, now_ms: int) -> list[Effect]:
        if self._register_until_ms is not None and now_ms >= self._register_until_ms:
            self._register_until_ms = None
            return self._step(Step.REGISTRATION_TIMED_OUT)
        if self._send_at_ms is not None and now_ms >= self._send_at_ms:
            return self._send_now(now_ms)
        return []

    def _cordon(self, directory_ids: Sequence[Uuid] | None, now_ms: int) -> list[Effect]:
        if directory_ids == self.cordoned:
            return []
        self.cordoned = directory_ids
        is_reported = self.is_registered and self.state is not BrokerState.STARTING and directory_ids is not None
        return self._send_now(now_ms) if is_reported else []

    def _shut_down(self, now_ms: int) -> list[Effect]:
        is_new = self.state is BrokerState.RUNNING
        changed = self._step(Step.SHUTDOWN_REQUESTED)
        return [*changed, *self._send_now(now_ms)] if is_new else changed

    # Responses.

    def _on_answer(
        self, response: BrokerRegistrationResponse | BrokerHeartbeatResponse | None, now_ms: int
    ) -> list[Effect]:
        request, self.in_flight = self.in_flight, None
        assert request is not None, f"{response} without a request in flight: {self}"
        if response is None:
            return self._after_failure(now_ms)
        if response.error_code != Errors.NONE:
            error = Errors.of(response.error_code)
            if error is Errors.STALE_BROKER_EPOCH:
                self.is_registered = False
            return [Refused(request, error), *self._after_failure(now_ms)]
        if isinstance(response, BrokerRegistrationResponse):
            self.broker_epoch, self.is_registered, self._register_until_ms = response.broker_epoch, True, None
            return [Registered(self.broker_epoch), *self._send_now(now_ms)]
        assert isinstance(request, BrokerHeartbeatRequest)
        self.failures.on_heartbeat_accepted(request.offline_log_dirs)
        return self._on_heartbeat(response, now_ms)

    def _on_heartbeat(self, response: BrokerHeartbeatResponse, now_ms: int) -> list[Effect]:
        interval_ms = self.config.heartbeat_interval_ms
        match self.state:
            case BrokerState.STARTING:
                changed = self._step(Step.CAUGHT_UP) if response.is_caught_up else []
                return [*changed, *self._send_after(STARTING_INTERVAL_MS, now_ms)]
            case BrokerState.RECOVERY:
                changed = [] if response.is_fenced else self._step(Step.UNFENCED)
                return [*changed, *self._send_after(interval_ms, now_ms)]
            case BrokerState.PENDING_CONTROLLED_SHUTDOWN:
                self._shutdown_answers += 1
                if response.should_shut_down:
                    return self._step(Step.MAY_SHUT_DOWN)
                is_first = self._shutdown_answers == 1
                return self._send_after(FIRST_SHUTDOWN_INTERVAL_MS if is_first else interval_ms, now_ms)
        return self._send_after(interval_ms, now_ms)

    def _step(self, step: Step) -> list[Effect]:
        before, self.state = self.state, next_state(self.state, step, self)
        if self.state is BrokerState.SHUTTING_DOWN:
            self._send_at_ms = self._register_until_ms = None
        return [] if self.state is before else [StateChanged(self.state)]
