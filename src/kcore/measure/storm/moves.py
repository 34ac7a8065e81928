"""Chooses new replicas when all partitions of a broker move to other brokers, in both modes."""

from collections.abc import Sequence

from kcore.errors import TargetError


def replaced(replicas: Sequence[int], leaving: int, live: Sequence[int], turn: int) -> list[int]:
    """The replicas with another live broker in place of `leaving`; successive values of `turn` choose other brokers."""
    others = [broker for broker in live if broker not in replicas]
    if not others:
        raise TargetError(f"no broker is left to move a partition with replicas {[*replicas]} to")
    return [others[turn % len(others)] if broker == leaving else broker for broker in replicas]
