"""Brokers come and go."""

from kcore.hollow.outcome import Outcome
from kcore.hollow.storm import Measure, Storm


async def register(storm: Storm) -> Outcome:
    """All brokers register at once; until all are unfenced and know it."""
    measure = Measure(storm, "register")
    await measure.begin()
    brokers = list(storm.fleet.brokers.values())
    await storm.fleet.start(brokers)
    await storm.fleet.unfenced(brokers, storm.timeout_s)
    measure.answered()
    return await measure.end("RegisterBrokerRecord", "BrokerRegistrationChangeRecord")


async def broker_lost(storm: Storm) -> Outcome:
    """One broker dies as by kill -9; until the last of the others knows the last of its partitions' new leaders.

    Timed from the death: the controller notices when the session ends. Afterwards the broker comes back, and its
    partitions' leaders take it into their ISRs again.
    """
    lost = storm.random.choice(storm.live())
    measure = Measure(storm, "broker-lost")
    await measure.begin()
    storm.fleet.kill([lost])
    await storm.until("the broker to be fenced", lambda: storm.is_fenced(lost))
    outcome = await measure.end("PartitionChangeRecord")
    await storm.restore([lost])
    return outcome
