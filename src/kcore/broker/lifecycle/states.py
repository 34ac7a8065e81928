"""The states of a broker's life, and what leads from one to the next, as data (BrokerState of 4.3.1)."""

from enum import Enum
from typing import Final


class BrokerState(Enum):
    """As Kafka calls them; a broker that is not started yet, or has ended, has no machine."""

    STARTING = "STARTING"  # It registers, and catches up with the metadata log.
    RECOVERY = "RECOVERY"  # It has caught up, and makes its replicas what the log says; still fenced.
    RUNNING = "RUNNING"  # It is unfenced.
    PENDING_CONTROLLED_SHUTDOWN = "PENDING_CONTROLLED_SHUTDOWN"  # Its leaders are being moved away.
    SHUTTING_DOWN = "SHUTTING_DOWN"  # It sends nothing any more.


class Step(Enum):
    """What moves a broker on."""

    CAUGHT_UP = "the controller says that it has caught up"
    UNFENCED = "the controller says that it is unfenced"
    SHUTDOWN_ASKED = "it is to stop"
    MAY_SHUT_DOWN = "the controller says that it may stop"
    REGISTRATION_TIMED_OUT = "it could not register in time"


_STARTING, _RECOVERY, _RUNNING, _PENDING, _ENDING = BrokerState

TRANSITIONS: Final[dict[tuple[BrokerState, Step], BrokerState]] = {
    (_STARTING, Step.CAUGHT_UP): _RECOVERY,
    (_RECOVERY, Step.UNFENCED): _RUNNING,
    (_RUNNING, Step.SHUTDOWN_ASKED): _PENDING,
    (_PENDING, Step.MAY_SHUT_DOWN): _ENDING,
    (_PENDING, Step.SHUTDOWN_ASKED): _PENDING,
    # A broker that was never unfenced leads nothing: nobody is asked.
    (_STARTING, Step.SHUTDOWN_ASKED): _ENDING,
    (_RECOVERY, Step.SHUTDOWN_ASKED): _ENDING,
    (_ENDING, Step.SHUTDOWN_ASKED): _ENDING,
    (_STARTING, Step.REGISTRATION_TIMED_OUT): _ENDING,
}


def next_state(state: BrokerState, step: Step, story: object) -> BrokerState:
    """The row of the table; AssertionError with the broker's story if there is none."""
    after = TRANSITIONS.get((state, step))
    assert after is not None, f"{step.value}, in state {state.value}: {story}"
    return after
