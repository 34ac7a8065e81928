"""Scenarios for a controller in ZooKeeper mode: each is a coroutine from a ZkStorm to a ScenarioResult."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from kcore.errors import TargetError
from kcore.measure.hollow.zk.broker_session import PING_S, SESSION_S
from kcore.measure.storm.expectations import Bounds
from kcore.measure.storm.result import ScenarioResult
from kcore.measure.storm.zk.topics import create, delete_topics, reassign
from kcore.measure.storm.zk.zk_storm import MOST_WAVES, ZkMeasure, ZkStorm
from kcore.metadata.zookeeper.znode_operations import Delete
from kcore.metadata.zookeeper.znodes import CONTROLLER
from kcore.net.connect import connect
from kcore.schema import ControlledShutdownRequest, UpdateMetadataRequest

CREATE: Final = "create"  # If it does not run, the storm writes the cluster before the controller starts.
BROKER_LOST: Final = "broker-lost"

Scenario = Callable[[ZkStorm], Awaitable[ScenarioResult]]


async def failover(storm: ZkStorm) -> ScenarioResult:
    """`/controller` is removed. Timed from its creation by a new controller until all brokers have all partitions."""
    created = asyncio.Event()
    measure = ZkMeasure(storm, "failover", storm.sent_whole())

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
    return await measure.end("all brokers to know all partitions", storm.everyone_knows_all)


async def broker_lost(storm: ZkStorm) -> ScenarioResult:
    """A broker dies. Timed from the death until the last request, when its partitions have other leaders.

    The broker's session is over, and the controller's work begins, when the broker's znode is gone.
    """
    lost = storm.pick() if storm.lost_id is None else storm.lost_id
    measure = ZkMeasure(storm, BROKER_LOST, storm.sent_about(lost))
    if not storm.fleet.kill(lost):
        raise TargetError(f"broker {lost} has no session of its own")
    async with asyncio.timeout(storm.timeout_s):
        await storm.fleet.gone(lost, lambda: measure.session_ended(SESSION_S - PING_S))
    return await measure.end("the others to know the new leaders of its partitions", lambda: _others_know(storm, lost))


async def broker_back(storm: ZkStorm) -> ScenarioResult:
    """A broker that was lost registers again. Timed until it knows all partitions."""
    away = sorted(storm.fleet.brokers.keys() - storm.fleet.live)
    if not away:
        raise TargetError("broker-back needs a broker that was lost: run it after broker-lost")
    held = len(storm.held(away[0]))
    most = MOST_WAVES * held * storm.table.replicas__ps.shape[1]
    measure = ZkMeasure(storm, "broker-back", Bounds(max(1, held), max(1, most), f"a broker with {held:,} replicas"))
    await storm.fleet.register(away[:1])
    return await measure.end("the broker to know all partitions", lambda: storm.knows_all(away[0]))


async def controlled_shutdown(storm: ZkStorm) -> ScenarioResult:
    """A broker requests a controlled shutdown. Timed until the answer, and until the last request that follows."""
    leaving = storm.pick()
    epoch = storm.fleet.brokers[leaving].epoch
    measure = ZkMeasure(storm, "controlled-shutdown", storm.sent_about(leaving))
    controller = storm.controller
    async with await connect(controller.host, controller.port, client_id=str(leaving)) as connection:
        request = ControlledShutdownRequest(broker_id=leaving, broker_epoch=epoch)
        answer = await connection.send(request, timeout_s=storm.timeout_s)
    measure.answered()
    if answer.error_code or answer.remaining_partitions:
        raise TargetError(f"error {answer.error_code}, {len(answer.remaining_partitions)} partitions remain")
    result = await measure.end("the others to know the new leaders", lambda: _others_know(storm, leaving))
    storm.forget()
    await storm.fleet.lose(leaving)
    await storm.fleet.quiet(2.0, storm.timeout_s)
    return result


async def bounce(storm: ZkStorm) -> ScenarioResult:
    """A broker's znode is deleted and created again in one transaction. Timed until it knows all partitions."""
    bounced = storm.pick()
    held, away = len(storm.held(bounced)), storm.sent_about(bounced, times=MOST_WAVES)
    measure = ZkMeasure(storm, "bounce", Bounds(max(1, held), away.most + MOST_WAVES * held, away.because))
    await storm.fleet.bounce(bounced)
    return await measure.end("the broker to know all partitions", lambda: storm.knows_all(bounced))


def _others_know(storm: ZkStorm, broker_id: int) -> bool:
    """True if the witness knows that the broker leads nothing, and all others have received as much as the witness."""
    sent = storm.fleet.partitions_sent
    most = sent(storm.witness.broker_id, UpdateMetadataRequest)
    others = storm.fleet.live - {broker_id}
    if any(sent(each, UpdateMetadataRequest) < most for each in others):
        return False
    return storm.witness.has_not(broker_id)  # Checked last: it merges the witness's requests.


SCENARIOS: Final[dict[str, Scenario]] = {
    CREATE: create,
    "failover": failover,
    BROKER_LOST: broker_lost,
    "broker-back": broker_back,
    "controlled-shutdown": controlled_shutdown,
    "bounce": bounce,
    "reassign": reassign,
    "delete-topics": delete_topics,
}
"""By name, in the order in which they run."""
