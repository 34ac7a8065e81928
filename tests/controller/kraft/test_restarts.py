"""Restarts that real controllers do not survive."""

import asyncio
import base64

import pytest

import cases
from controller.kraft.recorded.story_world import StoryWorld
from kcore.controller.kraft.departures import KAFKA_WAY
from kcore.controller.kraft.kafka_way.faults import ControllerFaultError
from kcore.schema.metadata_records_log import BeginTransactionRecord
from kcore.schema.metadata_records_topics import TopicRecord
from kcore.types import Uuid
from kcore.wire.metadata_frames import encode_metadata_record
from kcore.wire.record_building import encode_values


def test_a_controller_starts_from_a_snapshot_that_ends_where_a_transaction_begins() -> None:
    """Kafka's halts there: "Can't create a new in-memory snapshot". Here the transaction is aborted."""
    start_at_a_transaction(frozenset())


def test_in_kafkas_way_it_halts() -> None:
    with pytest.raises(ControllerFaultError, match="a transaction begins at"):
        start_at_a_transaction(KAFKA_WAY)


def start_at_a_transaction(kafka_way: frozenset[str]) -> None:
    async def run() -> None:
        story = next(each for each in cases.load("controller_turns_4.3.1-public") if len(each["nodes"]) == 1)
        async with StoryWorld(story, kafka_way) as world:
            node_id = world.active.node_id
            snapshot = (await world.turn({"kind": "snapshot", "node": node_id}))["snapshot"]
            await world.turn({"kind": "stop", "node": node_id, "how": "kill", "batches": []})
            records = BeginTransactionRecord(name="left over"), TopicRecord(name="lost", topic_id=Uuid(b"x" * 16))
            data = encode_values(
                [bytes(encode_metadata_record(each, 0)) for each in records],
                base_offset=snapshot["offset"],
                timestamp=0,
                partition_leader_epoch=snapshot["epoch"],
            )
            start = {"kind": "start", "node": node_id, "placementSeed": 1, "batches": [], "config": story["config"]}
            await world.turn({**start, "leftover": [], "leftoverData": base64.b64encode(data).decode()})
            types = [each["type"] for batch in world.written() for each in batch["records"]]
            assert types == ["LeaderChangeMessage", "AbortTransactionRecord", "RegisterControllerRecord"]
            assert not world.active.controller.image.topics

    asyncio.run(run())
