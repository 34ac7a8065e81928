"""The key and the received state of a replica, and the article's table of roles and of orders that change them."""

from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NamedTuple, TypeAlias

from kcore.constants import RECOVERED
from kcore.types import Uuid

Key: TypeAlias = tuple[str, int]  # A partition: its topic's name and its index.


@dataclass(frozen=True, slots=True)
class Replica:
    """The last accepted state of a partition that this broker has. Brokers are named by their ids."""

    topic_id: Uuid
    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    replicas: tuple[int, ...]
    partition_epoch: int
    stopped: bool = False  # Stopped with its log kept: it neither leads nor follows until a newer state arrives.
    controller_epoch: int = -1  # The epoch of the controller that sent the state.
    leader_recovery_state: int = RECOVERED
    is_new: bool = field(default=False, compare=False)  # The partition was not on this broker before.


class Role(Enum):
    """The role of one replica on this broker."""

    NONE = "none"  # This broker has no replica.
    STARTED = "started"  # The replica has a log, but neither leads nor follows, as the leader is not alive yet.
    LEADER = "leader"
    FOLLOWER = "follower"
    STOPPED = "stopped"  # StopReplica stopped it and kept its log.
    OFFLINE = "offline"  # The replica's log directory failed.


class Order(Enum):
    """An order of LeaderAndIsr or StopReplica, or a disk failure, that changes a replica's role."""

    START = "startReplica"
    BECOME_LEADER = "becomeLeader"
    BECOME_FOLLOWER = "becomeFollower"
    STOP = "stopReplica"
    DELETE = "stopReplica, delete"
    FAIL = "log directory failed"


class Action(Enum):
    """An action that a change of the role requires; `ReplicaManager.carry_out` performs it."""

    STOP_FETCHING = "stop fetching"
    START_FETCHING = "start fetching"
    # Answers requests that wait for commits or records of a replica that no longer leads.
    REFUSE_WAITING = "answer waiting requests"
    DELETE_LOG = "delete the log"


class Step(NamedTuple):
    """The replica's new role, and the actions in this order."""

    role: Role
    actions: tuple[Action, ...] = ()


_LEAD: Final = Step(Role.LEADER, (Action.STOP_FETCHING,))
_FOLLOW: Final = Step(Role.FOLLOWER, (Action.STOP_FETCHING, Action.REFUSE_WAITING, Action.START_FETCHING))
_DELETE: Final = Step(Role.NONE, (Action.STOP_FETCHING, Action.REFUSE_WAITING, Action.DELETE_LOG))
_FAIL: Final = Step(Role.OFFLINE, (Action.STOP_FETCHING, Action.REFUSE_WAITING))

# A new replica gets startReplica before the other orders (on_LeaderAndISRCommand, 2.1).
TRANSITIONS: Final[dict[tuple[Role, Order], Step]] = {
    (Role.NONE, Order.START): Step(Role.STARTED),
    (Role.NONE, Order.DELETE): Step(Role.NONE, (Action.DELETE_LOG,)),  # A topic deleted while this broker was down.
    **{
        (role, order): step
        for role in (Role.STARTED, Role.LEADER, Role.FOLLOWER, Role.STOPPED)
        for order, step in {
            Order.BECOME_LEADER: _LEAD,
            Order.BECOME_FOLLOWER: _FOLLOW,
            Order.STOP: Step(Role.STOPPED, (Action.STOP_FETCHING, Action.REFUSE_WAITING)),
            Order.DELETE: _DELETE,
            Order.FAIL: _FAIL,
        }.items()
    },
    (Role.OFFLINE, Order.FAIL): Step(Role.OFFLINE),
}


def next_step(role: Role, order: Order, story: object) -> Step:
    """The step for a role and an order. An illegal order raises AssertionError with `story`, the replica's state."""
    step = TRANSITIONS.get((role, order))
    assert step is not None, f"{order.value} to a replica that is {role.value}: {story}"
    return step
