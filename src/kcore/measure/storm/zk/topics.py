"""Scenarios that create, move and delete topics under a controller in ZooKeeper mode."""

import asyncio
import time
from typing import Any, Final

from kcore.errors import TargetError
from kcore.measure.hollow.zk.leaders import IsrLeaders
from kcore.measure.hollow.zk.tree import write_topics
from kcore.measure.storm.expectations import Bounds
from kcore.measure.storm.moves import replaced
from kcore.measure.storm.result import ScenarioResult
from kcore.measure.storm.zk.zk_storm import ZkMeasure, ZkStorm
from kcore.metadata.zookeeper.znodes import DELETE_TOPICS, TOPICS
from kcore.net.connect import connect
from kcore.net.connection import Connection
from kcore.protocol_errors import Errors
from kcore.schema import DeleteTopicsRequest, StopReplicaRequest
from kcore.schema import partitions as schema
from kcore.schema.structure import Message
from kcore.schema.topics import DeleteTopicState

WORK_S: Final = 1750.0  # Below the half hour that a scenario may take: Kafka's controller takes minutes.
_POLL_S: Final = 0.02
_MOVES_POLL_S: Final = 0.1  # Between requests of ListPartitionReassignments.
_SENT_A_MOVE: Final = 6  # The most LeaderAndIsr to a replica in one move.


async def create(storm: ZkStorm) -> ScenarioResult:
    """An administrator's tool writes all topics to ZooKeeper. Timed until the last broker knows all partitions.

    The tool writes each topic's settings and assignment; the controller creates all other znodes.
    """
    measure = ZkMeasure(storm, "create", storm.sent_whole())
    await write_topics(storm.fleet.client, storm.table)
    measure.wave("written by the tool")
    return await measure.end("the brokers to know all partitions", storm.everyone_knows_all, WORK_S)


async def reassign(storm: ZkStorm) -> ScenarioResult:
    """All partitions of one broker move to others, by AlterPartitionReassignments. Timed until the last request.

    Lost brokers register first. The leaders add new replicas to the ISRs, by AlterPartition (2.7 and later), as soon
    as the controller has sent LeaderAndIsr to these replicas.
    """
    await storm.everyone_back()
    leaving = storm.pick()
    rows = storm.held(leaving).copy()
    live = sorted(storm.fleet.live)
    before = [storm.replicas(row) for row in rows.tolist()]
    after = [replaced(replicas, leaving, live, at) for at, replicas in enumerate(before)]
    storm.witness.stop_keeping()
    request = _moves(storm, rows.tolist(), after)
    controller = storm.controller
    async with IsrLeaders(storm.fleet.brokers, controller.host, controller.port) as leaders:
        async with await connect(controller.host, controller.port, client_id="storm") as connection:
            measure = ZkMeasure(storm, "reassign", _of_moves(len(rows), storm.table.replicas__ps.shape[1]))
            answer = await connection.send(request, timeout_s=WORK_S)
            measure.answered()
            codes = (each.error_code for topic in answer.responses for each in topic.partitions)
            _check("AlterPartitionReassignments", {answer.error_code, *codes})
            await _until_moved(connection, leaders, len(rows))
            measure.wave("no partition moves any more")
        result = await measure.end("the last request", lambda: True, WORK_S)
    storm.table.set_replicas(rows, after)
    return result


def _of_moves(count: int, factor: int) -> Bounds:
    """Bounds by Kafka's rule: LeaderAndIsr goes to old and new replicas when a move begins, to new ones at its end."""
    return Bounds(max(1, count * factor), max(1, count * (factor + 1) * _SENT_A_MOVE), f"{count:,} partitions move")


def _moves(storm: ZkStorm, rows: list[int], replicas: list[list[int]]) -> Message:
    table = storm.table
    topics: dict[str, schema.ReassignableTopic] = {}
    for row, wanted in zip(rows, replicas, strict=True):
        name = table.topics.names[table.topic_row__p[row]]
        topic = topics.setdefault(name, schema.ReassignableTopic(name=name, partitions=[]))
        index = int(table.partition_index__p[row])
        topic.partitions.append(schema.ReassignablePartition(partition_index=index, replicas=wanted))
    return schema.AlterPartitionReassignmentsRequest(topics=[*topics.values()], timeout_ms=int(WORK_S * 1e3))


async def _until_moved(connection: Connection, leaders: IsrLeaders, count: int) -> None:
    """Returns when the controller lists no reassignment; the first request waits until new replicas are in the ISRs."""
    end = time.monotonic() + WORK_S
    while True:
        leaders.check()
        if leaders.changed >= count:
            answer: Any = await connection.send(schema.ListPartitionReassignmentsRequest(topics=None))
            _check("ListPartitionReassignments", {answer.error_code})
            if not answer.topics:
                return
        if time.monotonic() > end:
            raise TargetError(f"{leaders.changed} of {count} ISRs have their new replicas after {WORK_S:g} s")
        await asyncio.sleep(_MOVES_POLL_S if leaders.changed >= count else _POLL_S)


async def delete_topics(storm: ZkStorm) -> ScenarioResult:
    """One request deletes all topics. Timed until their znodes are gone and the last broker has the last request.

    Brokers that were lost register first: a topic with a replica on one of them would wait for it. Kafka's controller
    answers when its own broker has dropped the topics, kcore's when they are deleted; the wave "znodes gone" is
    comparable.
    """
    await storm.everyone_back()
    measure = ZkMeasure(storm, "delete-topics", storm.sent_whole(), StopReplicaRequest)
    deletion = asyncio.create_task(_delete_all(storm, measure))
    try:
        await _until_gone(storm)
        measure.wave("znodes gone")
        await deletion
    finally:
        deletion.cancel()
    result = await measure.end("the last request", lambda: True, WORK_S)
    result.last_ms = max(result.last_ms, *result.waves_ms.values())
    return result


async def _delete_all(storm: ZkStorm, measure: ZkMeasure) -> None:
    """Sends one request for all topics. TargetError unless all were deleted."""
    request = DeleteTopicsRequest(
        topics=[DeleteTopicState(name=name) for name in storm.table.topics.names],
        timeout_ms=int(WORK_S * 1e3),
    )
    controller = storm.controller
    async with await connect(controller.host, controller.port, client_id="storm") as connection:
        answer = await connection.send(request, timeout_s=WORK_S)
    measure.answered()
    _check("DeleteTopics", {each.error_code for each in answer.responses})


async def _until_gone(storm: ZkStorm) -> None:
    """Returns when ZooKeeper has no topics and no requests to delete topics."""
    client = storm.fleet.client
    end = time.monotonic() + WORK_S
    while any([stat and stat.numChildren for stat in [await client.stat(path) for path in (DELETE_TOPICS, TOPICS)]]):
        if time.monotonic() > end:
            raise TargetError(f"the topics are still there after {WORK_S:g} s")
        await asyncio.sleep(_POLL_S)


def _check(request: str, codes: set[int]) -> None:
    if wrong := {Errors.of(code).name for code in codes if code}:
        raise TargetError(f"{request} was refused: {', '.join(sorted(wrong))}")
