"""Scenarios for a controller in ZooKeeper mode: each is a coroutine over a ZkStorm that gives a ScenarioResult."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final

from kcore.errors import TargetError
from kcore.metadata.znode_operations import Delete
from kcore.metadata.znodes import CONTROLLER, DELETE_TOPICS, TOPICS
from kcore.net.connect import connect
from kcore.protocol_errors import Errors
from kcore.schema import ControlledShutdownRequest, DeleteTopicsRequest, UpdateMetadataRequest
from kcore.schema.topics import DeleteTopicState
from kcore.storm.result import ScenarioResult
from kcore.storm.zk.storm import QUIET_S, ZkMeasure, ZkStorm

Scenario = Callable[[ZkStorm], Awaitable[ScenarioResult]]
POLL_S: Final = 0.02
DELETION_S: Final = 570.0  # Within the ten minutes that a scenario has: Kafka's controller takes minutes.


async def failover(storm: ZkStorm) -> ScenarioResult:
    """`/controller` is removed; timed from its new creation until the last broker has everything again."""
    created = asyncio.Event()
    measure = ZkMeasure(storm, "failover")

    def changed(path: str, kind: str) -> None:
        if kind == "created":
            measure.begins_now()
            created.set()

    client = storm.fleet.client
    await client.write([Delete(CONTROLLER)])
    if (await client.read_nodes([CONTROLLER], watch=changed))[0] is None:
        async with asyncio.timeout(storm.timeout_s):
            await created.wait()
    else:
        measure.begins_now()
    return await measure.end("all brokers to be told of all partitions", storm.everyone_knows_all)


async def broker_lost(storm: ZkStorm) -> ScenarioResult:
    """A broker's znode goes; until the last request that follows from it. Its partitions have other leaders then."""
    lost = storm.pick()
    measure = ZkMeasure(storm, "broker-lost")
    await storm.fleet.lose(lost)
    return await measure.end("the others to be told of its partitions", lambda: _others_know(storm, lost))


async def broker_back(storm: ZkStorm) -> ScenarioResult:
    """A broker that was lost registers again. Timed until it knows all partitions."""
    away = sorted(storm.fleet.brokers.keys() - storm.fleet.live)
    if not away:
        raise TargetError("broker-back needs a broker that was lost: run it after broker-lost")
    measure = ZkMeasure(storm, "broker-back")
    await storm.fleet.register(away[:1])
    return await measure.end("it to be told of everything", lambda: storm.knows_all(away[0]))


async def controlled_shutdown(storm: ZkStorm) -> ScenarioResult:
    """A broker asks to stop; until the answer, and the last request that follows from it. Then its znode goes."""
    leaving = storm.pick()
    epoch = storm.fleet.brokers[leaving].epoch
    measure = ZkMeasure(storm, "controlled-shutdown")
    controller = storm.controller
    async with await connect(controller.host, controller.port, client_id=str(leaving)) as connection:
        request = ControlledShutdownRequest(broker_id=leaving, broker_epoch=epoch)
        answer = await connection.send(request, timeout_s=storm.timeout_s)
    measure.answered()
    if answer.error_code or answer.remaining_partitions:
        raise TargetError(f"error {answer.error_code}, {len(answer.remaining_partitions)} partitions remain")
    result = await measure.end("the others to be told of what it led", lambda: _others_know(storm, leaving))
    storm.forget()
    await storm.fleet.lose(leaving)
    await storm.fleet.quiet(2.0, storm.timeout_s)
    return result


async def bounce(storm: ZkStorm) -> ScenarioResult:
    """A broker's znode is deleted and created again in one transaction. Timed until it knows all partitions."""
    bounced = storm.pick()
    measure = ZkMeasure(storm, "bounce")
    await storm.fleet.bounce(bounced)
    return await measure.end("it to be told of everything", lambda: storm.knows_all(bounced))


async def delete_topics(storm: ZkStorm) -> ScenarioResult:
    """All topics are deleted at once; until their znodes are gone, and the last request that follows from it.

    Brokers that were lost register first: a topic with a replica on one of them would wait for it. Kafka's controller
    answers when its own broker has dropped the topics, kcore's when they are deleted; the wave "znodes gone" is
    comparable.
    """
    if away := sorted(storm.fleet.brokers.keys() - storm.fleet.live):
        storm.forget()
        await storm.fleet.register(away)
        what = "the brokers that are back to be told of everything"
        await storm.fleet.until(what, lambda: all(map(storm.knows_all, away)), storm.timeout_s)
        await storm.fleet.quiet(QUIET_S, storm.timeout_s)
    measure = ZkMeasure(storm, "delete-topics")
    deletion = asyncio.create_task(_delete_all(storm, measure))
    try:
        await _until_gone(storm)
        measure.result.waves_ms["znodes gone"] = (time.monotonic_ns() - measure.intended_ns) / 1e6
        await deletion
    finally:
        deletion.cancel()
    return await measure.end("the last request", lambda: True)


async def _delete_all(storm: ZkStorm, measure: ZkMeasure) -> None:
    """One request for all topics. TargetError unless all were deleted."""
    request = DeleteTopicsRequest(
        topics=[DeleteTopicState(name=name) for name in storm.table.topics.names],
        timeout_ms=int(DELETION_S * 1e3),
    )
    controller = storm.controller
    async with await connect(controller.host, controller.port, client_id="storm") as connection:
        answer = await connection.send(request, timeout_s=DELETION_S)
    measure.answered()
    if codes := {each.error_code for each in answer.responses} - {Errors.NONE}:
        raise TargetError(f"topics are not deleted: {', '.join(sorted(Errors(code).name for code in codes))}")


async def _until_gone(storm: ZkStorm) -> None:
    """Returns when ZooKeeper has neither topics nor wishes to delete them."""
    client = storm.fleet.client
    end = time.monotonic() + DELETION_S
    while any([stat and stat.numChildren for stat in [await client.stat(path) for path in (DELETE_TOPICS, TOPICS)]]):
        if time.monotonic() > end:
            raise TargetError(f"the topics are still there after {DELETION_S:g} s")
        await asyncio.sleep(POLL_S)


def _others_know(storm: ZkStorm, broker_id: int) -> bool:
    """Whether all others have received as much as the witness, which knows that this broker leads nothing any more."""
    sent = storm.fleet.partitions_sent
    most = sent(storm.witness.broker_id, UpdateMetadataRequest)
    others = storm.fleet.live - {broker_id}
    return storm.witness.has_not(broker_id) and all(sent(each, UpdateMetadataRequest) >= most for each in others)


SCENARIOS: Final[dict[str, Scenario]] = {
    "failover": failover,
    "broker-lost": broker_lost,
    "broker-back": broker_back,
    "controlled-shutdown": controlled_shutdown,
    "bounce": bounce,
    "delete-topics": delete_topics,
}
"""In the order in which they run when all are asked for."""
