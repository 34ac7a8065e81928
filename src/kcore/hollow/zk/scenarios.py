"""What can be done to a controller in ZooKeeper mode: one coroutine a scenario, over a ZkStorm, giving an Outcome."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from kcore.controller.effects import Delete
from kcore.errors import TargetError
from kcore.hollow.outcome import Outcome
from kcore.hollow.zk.storm import ZkMeasure, ZkStorm
from kcore.metadata.znodes import CONTROLLER
from kcore.net.connect import connect
from kcore.schema import ControlledShutdownRequest, UpdateMetadataRequest

Scenario = Callable[[ZkStorm], Awaitable[Outcome]]


async def failover(storm: ZkStorm) -> Outcome:
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


async def broker_lost(storm: ZkStorm) -> Outcome:
    """A broker's znode goes; until the last request that follows from it. Its partitions have other leaders then."""
    lost = storm.pick()
    measure = ZkMeasure(storm, "broker-lost")
    await storm.fleet.lose(lost)
    return await measure.end("the others to be told of its partitions", lambda: _others_know(storm, lost))


async def broker_back(storm: ZkStorm) -> Outcome:
    """A broker that was lost registers again; until it has been told of everything."""
    away = sorted(storm.fleet.brokers.keys() - storm.fleet.live)
    if not away:
        raise TargetError("broker-back needs a broker that was lost: run it after broker-lost")
    measure = ZkMeasure(storm, "broker-back")
    await storm.fleet.register(away[:1])
    return await measure.end("it to be told of everything", lambda: storm.knows_all(away[0]))


async def controlled_shutdown(storm: ZkStorm) -> Outcome:
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
    outcome = await measure.end("the others to be told of what it led", lambda: _others_know(storm, leaving))
    storm.forget()
    await storm.fleet.lose(leaving)
    await storm.fleet.quiet(2.0, storm.timeout_s)
    return outcome


async def bounce(storm: ZkStorm) -> Outcome:
    """A broker's znode goes and is back in one transaction; until it has been told of everything."""
    bounced = storm.pick()
    measure = ZkMeasure(storm, "bounce")
    await storm.fleet.bounce(bounced)
    return await measure.end("it to be told of everything", lambda: storm.knows_all(bounced))


def _others_know(storm: ZkStorm, broker_id: int) -> bool:
    """Whether all others have been told as much as the witness, who knows that this one leads nothing any more."""
    told = storm.fleet.told
    most = told(storm.witness.broker_id, UpdateMetadataRequest)
    others = storm.fleet.live - {broker_id}
    return storm.witness.has_not(broker_id) and all(told(each, UpdateMetadataRequest) >= most for each in others)


SCENARIOS: Final[dict[str, Scenario]] = {
    "failover": failover,
    "broker-lost": broker_lost,
    "broker-back": broker_back,
    "controlled-shutdown": controlled_shutdown,
    "bounce": bounce,
}
"""In the order in which they run when all are asked for."""
