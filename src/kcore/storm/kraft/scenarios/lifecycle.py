"""Brokers come and go."""

import asyncio

from kcore.errors import TargetError
from kcore.hollow.fleet import HollowBroker
from kcore.hollow.histograms import NOT_KNOWN
from kcore.storm.kraft.storm import Measure, Storm
from kcore.storm.result import ScenarioResult


async def register(storm: Storm) -> ScenarioResult:
    """All brokers register at once; until all are unfenced and know it."""
    measure = Measure(storm, "register")
    await measure.begin()
    brokers = list(storm.fleet.brokers.values())
    await storm.fleet.start(brokers)
    await storm.fleet.unfenced(brokers, storm.timeout_s)
    measure.answered()
    return await measure.end("RegisterBrokerRecord", "BrokerRegistrationChangeRecord")


async def heartbeat(storm: Storm) -> ScenarioResult:
    """Nothing happens for `sizes.seconds`: what heartbeats take, and what idle brokers cost both sides."""
    measure = Measure(storm, "heartbeat")
    await measure.begin()
    await asyncio.sleep(storm.sizes.seconds)
    return await measure.end()


async def broker_lost(storm: Storm) -> ScenarioResult:
    """One broker is killed (kill -9); until the last other broker knows the last new leader of its partitions.

    Timed from the death: the controller notices when the session ends. Afterwards the broker comes back, and its
    partitions' leaders take it into their ISRs again.
    """
    return await _lost(storm, "broker-lost", [storm.random.choice(storm.live())])


async def rack_lost(storm: Storm) -> ScenarioResult:
    """All brokers of one rack die as by kill -9; otherwise as broker-lost."""
    racks = sorted({broker.rack for broker in storm.live() if broker.rack is not None})
    if len(racks) < 2:
        raise TargetError(f"rack-lost needs brokers in two racks or more, and there are {len(racks)}")
    rack = storm.random.choice(racks)
    return await _lost(storm, "rack-lost", [broker for broker in storm.live() if broker.rack == rack])


async def _lost(storm: Storm, scenario: str, lost: list[HollowBroker]) -> ScenarioResult:
    measure = Measure(storm, scenario)
    await measure.begin()
    storm.fleet.kill(lost)
    measure.waits_for_sessions(lost)
    await storm.until("the brokers to be fenced", lambda: all(map(storm.is_fenced, lost)))
    result = await measure.end("PartitionChangeRecord")
    await storm.restore(lost)
    return result


async def controlled_shutdown(storm: Storm) -> ScenarioResult:
    """Controlled shutdown of one broker; until it is granted, and until the last other broker knows the new leaders.

    Afterwards it comes back, which a controller refuses until the old session has ended.
    """
    leaving = storm.random.choice(storm.live())
    measure = Measure(storm, "controlled-shutdown")
    await measure.begin()
    await storm.fleet.shut_down([leaving], storm.timeout_s)
    measure.answered()
    result = await measure.end("PartitionChangeRecord")
    await storm.restore([leaving], clean=True)
    return result


async def rolling_restart(storm: Storm) -> ScenarioResult:
    """`sizes.restarts` brokers, one after the other, stop as they should and come back into all their ISRs.

    Timed from the first one's request to stop until the last one is back and all brokers know; a wave is one broker.
    """
    brokers = storm.random.sample(storm.live(), min(storm.sizes.restarts, len(storm.live())))
    measure = Measure(storm, "rolling-restart")
    await measure.begin()
    for broker in brokers:
        await storm.fleet.shut_down([broker], storm.timeout_s)
        await storm.restore([broker], clean=True)
        await measure.wave(f"broker {broker.broker_id}", "PartitionChangeRecord")
    measure.answered()
    return await measure.end("PartitionChangeRecord")


async def bounce(storm: Storm) -> ScenarioResult:
    """One broker dies as by kill -9 and registers again at once, before its session ends.

    Timed from the death until it is unfenced, and until the last broker knows the last change of its partitions. A
    controller may refuse the new incarnation while the old one's session lasts: the errors count how often.
    """
    broker = storm.random.choice(storm.live())
    measure = Measure(storm, "bounce")
    await measure.begin()
    storm.fleet.kill([broker])
    measure.waits_for_sessions([broker])
    await storm.fleet.start([broker])
    await storm.fleet.unfenced([broker], storm.timeout_s)
    measure.answered()
    if not storm.fleet.refused_ns:
        measure.result.session_ms = NOT_KNOWN  # It was taken in at once.
    result = await measure.end("PartitionChangeRecord")
    await storm.restore([broker])
    return result
