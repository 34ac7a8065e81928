"""The keys of a `[[workload]]` and the values that each may have."""

from collections.abc import Callable, Iterable
from math import isfinite
from typing import Any, Final, NamedTuple

from kcore.constants import MAX_BROKERS, MAX_PARTITIONS, MAX_REPLICAS
from kcore.measure.workloads.catalog import WORKLOADS
from kcore.measure.workloads.cell import ISRS

LEAST_BROKERS: Final = 3
MOST_PARTITIONS: Final = 100_000_000
MOST_REPETITIONS: Final = 1_000
MOST_SEED: Final = 2**63 - 1
MOST_SECONDS: Final = 3_600


class Rule(NamedTuple):
    """The rule for a value of a plan: a check, the permitted values in words, and the permitted names, if any."""

    fits: Callable[[Any], bool]
    wanted: str
    names: Iterable[str] = ()


def _integer(low: int, high: int) -> Rule:
    return Rule(_is_integer(low, high), f"an integer from {low} to {high:,}")


def _is_integer(low: int, high: int) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, int) and not isinstance(value, bool) and low <= value <= high


def _sizes(low: int, high: int) -> Rule:
    fits = _is_integer(low, high)
    return Rule(
        lambda value: isinstance(value, list | tuple) and len(value) > 0 and all(map(fits, value)),
        f"a list of integers from {low} to {high:,}",
    )


def _number(high: float, wanted: str) -> Rule:
    return Rule(
        lambda value: (
            isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value) and 0 <= value <= high
        ),
        wanted,
    )


def _name(names: Iterable[str]) -> Rule:
    return Rule(lambda value: isinstance(value, str) and value in names, f"one of {', '.join(names)}", names)


RULES: Final[dict[str, Rule]] = {
    "name": _name(WORKLOADS),
    "partitions": _sizes(1, MOST_PARTITIONS),
    "brokers": _sizes(LEAST_BROKERS, MAX_BROKERS),
    "repeat": _integer(1, MOST_REPETITIONS),
    "seed": Rule(_is_integer(0, MOST_SEED), f"an integer from 0 to {MOST_SEED}"),
    "replication_factor": _integer(1, MAX_REPLICAS),
    "topics": _integer(1, MAX_PARTITIONS),
    "partitions_per_topic": _integer(1, MAX_PARTITIONS),
    "racks": _integer(0, MAX_BROKERS),
    "isr": _name(ISRS),
    "brokers_gone": _number(0.99, "a share of the brokers, from 0 to 0.99"),
    "warm_up_s": _number(MOST_SECONDS, f"seconds from 0 to {MOST_SECONDS:,}"),
    "duration_s": _number(MOST_SECONDS, f"seconds from 0 to {MOST_SECONDS:,}"),
}
