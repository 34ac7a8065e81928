"""Records of the coordinators' topics, every type and version: Kafka's decoders print what kcore prints."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kcore.schema.coordinators.groups import ClassicMemberMetadata, ConsumerGroupMemberMetadataValue
from kcore.schema.kinds import INTEGER_RANGES, Kind
from kcore.schema.structure import Data
from kcore.storage.tools.coordinator_records import OFFSETS, TRANSACTIONS, Types
from kcore.storage.tools.dump import Detail, dump_lines
from kcore.types import Uuid
from kcore.wire.codec import encode
from kcore.wire.plan import Step, StructPlan, plan
from kcore.wire.record_building import encode_records
from kcore.wire.records import Record
from oracle.kafka_tools import dump_log

PLAIN = {Kind.STRING: "wört", Kind.BYTES: b"\0\xff", Kind.UUID: Uuid(bytes(range(1, 17))), Kind.BOOL: True}


def filled(struct_plan: StructPlan, empty: bool) -> Any:
    """Every field set, or every one that may be null or empty so."""
    steps = (*struct_plan.in_line, *struct_plan.tagged)
    return struct_plan.struct(**{step.field.name: value_of(step.step, empty) for step in steps})


def member(empty: bool) -> ConsumerGroupMemberMetadataValue:
    """With its tag 0."""
    message: ConsumerGroupMemberMetadataValue = filled(plan(ConsumerGroupMemberMetadataValue, 0), empty)
    classic = b"\0" if empty else b"\1" + encode(filled(plan(ClassicMemberMetadata, 0), False), 0)
    message.unknown_tagged_fields = [(0, classic)]
    return message


OWN: dict[type[Data], Callable[[bool], Data]] = {ConsumerGroupMemberMetadataValue: member}


def value_of(step: Step, empty: bool) -> Any:
    if empty and step.nullable:
        return None
    if step.element is not None:
        return [] if empty else [value_of(step.element, empty), value_of(step.element, empty)]
    if step.struct is not None:
        return filled(step.struct, empty)
    return INTEGER_RANGES[step.kind][empty] - empty if step.kind in INTEGER_RANGES else PLAIN[step.kind]


def rows(types: Types) -> list[Record]:
    made: list[Record] = []
    for number, (key_type, value_type) in types.items():
        key = number.to_bytes(2) + encode(filled(plan(key_type, 0), False), 0)
        for version in range(value_type.versions.lowest, value_type.versions.highest + 1):
            for empty in (False, True):
                own = OWN.get(value_type)
                message = filled(plan(value_type, version), empty) if own is None else own(empty)
                made.append(Record(len(made), 0, key, version.to_bytes(2) + encode(message, version)))
        made.append(Record(len(made), 0, key, None))
    return [*made, Record(len(made), 0, b"\0\x63", b"")]


DECODERS = {"--offsets-decoder": OFFSETS, "--transaction-log-decoder": TRANSACTIONS}


@pytest.mark.parametrize("option", DECODERS)
def test_every_type_and_version(option: str, tmp_path: Path) -> None:
    types = DECODERS[option]
    path = tmp_path / f"{0:020}.log"
    path.write_bytes(encode_records(rows(types)))
    theirs, complaints = dump_log([path], option)
    assert complaints == ""
    assert theirs[1:] == list(dump_lines(path, Detail(coordinator=types)))
    assert len(theirs) > 3 * len(types)
