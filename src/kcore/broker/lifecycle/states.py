"""The states of a broker's lifecycle and their transitions, as data (BrokerState of 4.3.1)."""

from enum import Enum
from typing import Final


class BrokerState(Enum):
    """The states, under Kafka's names, of a broker whose process runs."""

    STARTING = "STARTING"  # The broker registers, and catches up with the metadata log.
    RECOVERY = "RECOVERY"  # It has caught up, and applies the metadata log to its replicas; it is still fenced.
    RUNNING = "RUNNING"  # It is unfenced.
    PENDING_CONTROLLED_SHUTDOWN = "PENDING_CONTROLLED_SHUTDOWN"  # The controller moves its leaders to other brokers.
    SHUTTING_DOWN = "SHUTTING_DOWN"  # It sends no more requests.


class Step(Enum):
    """An event that changes a broker's state."""

    CAUGHT_UP = "a heartbeat's answer has isCaughtUp"
    UNFENCED = "a heartbeat's answer has no isFenced"
    SHUTDOWN_ASKED = "the process was asked to stop"
    MAY_SHUT_DOWN = "a heartbeat's answer has shouldShutDown"
    REGISTRATION_TIMED_OUT = "the broker could not register in time"


_STARTING, _RECOVERY, _RUNNING, _PENDING, _ENDING = BrokerState

TRANSITIONS: Final[dict[tuple[BrokerState, Step], BrokerState]] = {
    (_STARTING, Step.CAUGHT_UP): _RECOVERY,
    (_RECOVERY, Step.UNFENCED): _RUNNING,
    (_RUNNING, Step.SHUTDOWN_ASKED): _PENDING,
    (_PENDING, Step.MAY_SHUT_DOWN): _ENDING,
    (_PENDING, Step.SHUTDOWN_ASKED): _PENDING,
    # A broker that was never unfenced leads no partitions, so it stops without asking the controller.
    (_STARTING, Step.SHUTDOWN_ASKED): _ENDING,
    (_RECOVERY, Step.SHUTDOWN_ASKED): _ENDING,
    (_ENDING, Step.SHUTDOWN_ASKED): _ENDING,
    (_STARTING, Step.REGISTRATION_TIMED_OUT): _ENDING,
}


def next_state(state: BrokerState, step: Step, story: object) -> BrokerState:
    """The next state; AssertionError with the broker's attributes for an illegal step."""
    after = TRANSITIONS.get((state, step))
    assert after is not None, f"{step.value}, in state {state.value}: {story}"
    return after
