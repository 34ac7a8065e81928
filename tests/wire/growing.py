"""Random messages of the kinds whose arrays grow with the cluster, for tests of columns.

Structs of one array are encoded alike, or differ by nulls, tags, counts and lengths: `DIALS` names the mixtures.
"""

import random
from dataclasses import dataclass
from typing import Any

from kcore.schema.kinds import Kind
from kcore.wire.plan import Step, StructPlan
from reference.columns import default_of

GROWING = tuple(
    f"{name}{kind}"
    for name in (
        *("LeaderAndIsr", "UpdateMetadata", "StopReplica", "Metadata", "Fetch", "AlterPartition"),
        *("AssignReplicasToDirs", "CreateTopics", "DescribeQuorum"),
    )
    for kind in ("Request", "Response")
)
NUMBERS = {
    **{Kind.INT8: 2**7, Kind.INT16: 2**15, Kind.UINT16: 2**16},
    **{Kind.INT32: 2**31, Kind.UINT32: 2**32, Kind.INT64: 2**63},
}


@dataclass(frozen=True, slots=True)
class Dials:
    """The distribution of the random values of a message."""

    null: float = 0  # The share of nullable values that are null.
    absent: float = 1  # The share of tagged fields that have their default, and so are not written.
    unknown: float = 0  # The share of structs with a tag that the schema does not have.
    outer: tuple[int, ...] = (30,)  # Possible counts of an array that is in no other array.
    inner: tuple[int, ...] = (3,)  # Possible counts of the arrays within arrays.
    lengths: tuple[int, ...] = (5,)  # Possible lengths of strings and bytes.


DIALS = {
    "alike": Dials(),
    "alike, many": Dials(outer=(2,), inner=(70,)),
    "alike, tags and nulls": Dials(null=1, absent=0),
    "one of many is longer": Dials(lengths=(5,) * 40 + (6,)),
    "one of many is null": Dials(null=0.03),
    "one of many has a tag": Dials(absent=0.97),
    "one of many has an unknown tag": Dials(unknown=0.02),
    "counts differ": Dials(inner=(1, 1, 1, 1, 1, 2, 9)),
    "few long arrays": Dials(outer=(4,), inner=(9, 30, 31)),
    "as many as are learned": Dials(outer=(12,), inner=(8,), lengths=(1,)),
    "long strings": Dials(lengths=(126, 127, 200, 200, 200, 200), inner=(2,)),
    "nothing inside": Dials(inner=(0,), lengths=(0,)),
    "anything": Dials(0.3, 0.5, 0.05, (20,), (0, 1, 2, 3), (0, 1, 5, 9)),
}


def message_row(plan: StructPlan, dials: Dials, seed: int) -> dict[str, Any]:
    """A random message as a plain row of `reference.columns`, the same for the same seed."""
    return struct_row(plan, dials, random.Random(seed), 0)


def struct_row(plan: StructPlan, dials: Dials, rng: random.Random, depth: int) -> dict[str, Any]:
    row = {step.field.name: value(step.step, dials, rng, depth) for step in plan.in_line}
    for step in plan.tagged:
        is_absent = rng.random() < dials.absent
        row[step.field.name] = default_of(step) if is_absent else value(step.step, dials, rng, depth)
    if plan.flexible and rng.random() < dials.unknown:
        row["unknown"] = [(99, rng.randbytes(3))]
    return row


def value(step: Step, dials: Dials, rng: random.Random, depth: int) -> Any:
    if step.nullable and rng.random() < dials.null:
        return None
    if step.kind in NUMBERS:
        half = NUMBERS[step.kind] // 2
        return rng.randrange(NUMBERS[step.kind]) if "U" in step.kind.name else rng.randrange(-half, half)
    if step.struct is not None and step.kind is Kind.STRUCT:
        return struct_row(step.struct, dials, rng, depth)
    if step.kind is Kind.ARRAY:
        assert step.element is not None
        count = rng.choice(dials.inner if depth else dials.outer)
        return [value(step.element, dials, rng, depth + 1) for _ in range(count)]
    if step.kind is Kind.STRING:
        return "".join(rng.choices("abcdefghij", k=rng.choice(dials.lengths)))
    if step.kind in (Kind.BYTES, Kind.RECORDS):
        return rng.randbytes(rng.choice(dials.lengths))
    return {Kind.BOOL: rng.random() < 0.5, Kind.FLOAT64: rng.random(), Kind.UUID: rng.randbytes(16)}[step.kind]
