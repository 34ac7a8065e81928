"""Scenarios in which brokers register, stop, die and restart."""

import asyncio
from typing import Final

from kcore.errors import TargetError
from kcore.measure.hollow.fleet import HollowBroker
from kcore.measure.storm.expectations import Bounds, Holdings, leaving
from kcore.measure.storm.kraft.kraft_storm import Measure, Storm
from kcore.measure.storm.result import ScenarioResult

_MOST_AGAIN: Final = 5  # The most changes by the least: brokers whose sessions end are fenced and unfenced again.


async def register(storm: Storm) -> ScenarioResult:
    """All brokers register at once. Timed until all are unfenced, and until the last broker knows this."""
    measure = Measure(storm, "register")
    brokers = list(storm.fleet.brokers.values())
    least = 2 * len(brokers)
    await measure.begin(Bounds(least, _MOST_AGAIN * least, f"{len(brokers):,} brokers register and are unfenced"))
    await storm.fleet.start(brokers)
    await storm.fleet.unfenced(brokers, storm.timeout_s)
    measure.answered()
    return await measure.end("RegisterBrokerRecord", "BrokerRegistrationChangeRecord")


async def heartbeat(storm: Storm) -> ScenarioResult:
    """Nothing happens for `sizes.seconds`: measures heartbeats, and the CPU time of idle brokers on both sides."""
    measure = Measure(storm, "heartbeat")
    await measure.begin(Bounds(0, 0, "nothing changes in this scenario"))
    await asyncio.sleep(storm.sizes.seconds)
    result = await measure.end("PartitionChangeRecord", "BrokerRegistrationChangeRecord", "RegisterBrokerRecord")
    if not sum(result.heartbeats):
        result.invalidate(f"no heartbeat was answered within {storm.sizes.seconds:g} s")
    return result


async def broker_lost(storm: Storm) -> ScenarioResult:
    """One broker is killed (kill -9). Timed until the last other broker knows the last new leader of its partitions.

    The time begins with the death; the controller notices the death when the session ends. Afterwards the broker comes
    back, and its partitions' leaders add it to the ISRs again.
    """
    lost, held = await storm.pick()
    return await _lost(storm, "broker-lost", lost, held)


async def rack_lost(storm: Storm) -> ScenarioResult:
    """All brokers of one rack are killed (kill -9). Timed as broker-lost."""
    racks = sorted({broker.rack for broker in storm.live() if broker.rack is not None})
    if len(racks) < 2:
        raise TargetError(f"rack-lost needs brokers in two racks or more, and there are {len(racks)}")
    [first], _ = await storm.pick()
    lost = [broker for broker in storm.live() if broker.rack == first.rack]
    return await _lost(storm, "rack-lost", lost, await storm.holdings(lost))


async def _lost(storm: Storm, scenario: str, lost: list[HollowBroker], held: Holdings) -> ScenarioResult:
    measure = Measure(storm, scenario)
    await measure.begin(leaving(held))
    storm.fleet.kill(lost)
    measure.waits_for_sessions(lost)
    await storm.until("the brokers to be fenced", lambda: all(map(storm.is_fenced, lost)))
    result = await measure.end("PartitionChangeRecord")
    await storm.restore(lost)
    return result


async def controlled_shutdown(storm: Storm) -> ScenarioResult:
    """One broker shuts down. Timed until the controller allows this, and the last other broker knows the new leaders.

    Afterwards the broker comes back; a controller refuses its registration until the old session has ended.
    """
    stopped, held = await storm.pick()
    measure = Measure(storm, "controlled-shutdown")
    await measure.begin(leaving(held))
    await storm.fleet.shut_down(stopped, storm.timeout_s)
    measure.answered()
    result = await measure.end("PartitionChangeRecord")
    await storm.restore(stopped, clean=True)
    return result


async def rolling_restart(storm: Storm) -> ScenarioResult:
    """`sizes.restarts` brokers, one after the other, shut down in a controlled way, restart and rejoin all their ISRs.

    Timed from the first shutdown request until all brokers know that the last broker is back. Each broker is a wave.
    """
    brokers, held = await storm.pick(storm.sizes.restarts, "isrs")
    measure = Measure(storm, "rolling-restart")
    least = 2 * (held.isrs - held.alone)  # Out of the ISR, and back into it.
    await measure.begin(Bounds(max(1, least), leaving(held, times=2).most, f"brokers that {held} restart"))
    for broker in brokers:
        await storm.fleet.shut_down([broker], storm.timeout_s)
        await storm.restore([broker], clean=True)
        await measure.wave(f"broker {broker.broker_id}", "PartitionChangeRecord")
    measure.answered()
    return await measure.end("PartitionChangeRecord")


async def bounce(storm: Storm) -> ScenarioResult:
    """One broker is killed (kill -9) and registers again at once, before its session ends.

    Timed from the death until the broker is unfenced, and until the last broker knows the last change of its
    partitions. A controller may refuse the new incarnation while the old session lasts: the errors count how often.
    """
    [broker], held = await storm.pick()
    measure = Measure(storm, "bounce")
    await measure.begin(leaving(held, times=2))
    storm.fleet.kill([broker])
    measure.waits_for_sessions([broker])
    await storm.fleet.start([broker])
    await storm.fleet.unfenced([broker], storm.timeout_s)
    measure.answered()
    if not storm.fleet.refused_ns:
        measure.waits_no_more()
    result = await measure.end("PartitionChangeRecord")
    await storm.restore([broker])
    return result
