"""The slow twin of `kcore._ext.tables.znodes`: one state or path at a time, by Python's json."""

import json
from typing import NamedTuple


class State(NamedTuple):
    """The contents of a state's znode."""

    leader: int
    leader_epoch: int
    controller_epoch: int
    recovery: int
    isr: list[int]


def state_of(text: bytes) -> State | None:
    """The state in the JSON, with fields in any order; None if it is not a state."""
    try:
        value = json.loads(text.decode())
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict) or not value.keys() >= {"leader", "leader_epoch", "controller_epoch", "isr"}:
        return None
    isr = value["isr"]
    state = State(
        value["leader"],
        value["leader_epoch"],
        value["controller_epoch"],
        value.get("leader_recovery_state", 0),
        isr if isinstance(isr, list) else [None],
    )
    numbers = [*state[:4], *state.isr]
    is_sound = all(type(number) is int and -(2**31) <= number < 2**31 for number in numbers)
    return state if is_sound and state.recovery in (0, 1) else None


def text_of(state: State) -> bytes:
    """The JSON as Kafka writes it."""
    fields = {"controller_epoch": state.controller_epoch, "leader": state.leader, "version": 1}
    if state.recovery:
        fields["leader_recovery_state"] = state.recovery
    fields |= {"leader_epoch": state.leader_epoch, "isr": state.isr}  # type: ignore[dict-item]
    return json.dumps(fields, separators=(",", ":")).encode()


def path_of(prefix: str, topic: str, partition: int, suffix: str) -> bytes:
    """The path of a partition's znode."""
    return f"{prefix}{topic}/partitions/{partition}{suffix}".encode()
