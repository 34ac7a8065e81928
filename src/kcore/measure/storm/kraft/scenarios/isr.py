"""The scenario in which followers leave the ISRs and come back."""

from functools import partial

import numpy as np

from kcore.measure.hollow.fleet import HollowBroker
from kcore.measure.storm.expectations import exactly
from kcore.measure.storm.kraft.kraft_storm import Measure, Storm
from kcore.measure.storm.result import ScenarioResult
from kcore.metadata.table.partition_table import PartitionTable
from kcore.types import Int32s

_CHANGE = "PartitionChangeRecord"


async def isr_storm(storm: Storm) -> ScenarioResult:
    """All followers of `sizes.leaders` brokers leave the ISRs and come back, `sizes.rounds` times.

    Each direction is a wave, timed from the leaders' requests until the last broker knows the last change.
    """
    leaders, _ = await storm.pick(storm.sizes.leaders)
    measure = Measure(storm, "isr-storm")
    await storm.fill_isrs(storm.live())
    followed = len(_followed(leaders, storm.table))
    await measure.begin(exactly(2 * followed * storm.sizes.rounds, f"{followed:,} ISRs shrink and expand"))
    for round_ in range(1, storm.sizes.rounds + 1):
        await storm.alter_isrs("have followers in their ISR", partial(_followed, leaders), _alone)
        await measure.wave(f"shrink {round_}", _CHANGE)
        await storm.fill_isrs(storm.live())
        await measure.wave(f"expand {round_}", _CHANGE)
    measure.answered()
    return await measure.end(_CHANGE)


def _followed(leaders: list[HollowBroker], table: PartitionTable) -> Int32s:
    """Rows of the partitions that these brokers lead and whose ISRs have other members."""
    led = np.isin(table.leader__p, table.brokers.rows([broker.broker_id for broker in leaders]))
    followed: Int32s = np.flatnonzero(led & ((table.isr__pi >= 0).sum(axis=1) > 1)).astype(np.int32)
    return followed


def _alone(table: PartitionTable, row: int) -> list[int]:
    """The ISR that has only the partition's leader."""
    return [int(table.brokers.ids[table.leader__p[row]])]
