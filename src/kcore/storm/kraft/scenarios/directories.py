"""Log directories fail and are replaced (KIP-858)."""

import asyncio
from typing import Final

from kcore.hollow.fleet import HollowBroker
from kcore.schema import log_dirs as schema
from kcore.schema.log_dirs import AssignReplicasToDirsRequest
from kcore.storm.kraft.scenarios.topics import check
from kcore.storm.kraft.storm import Measure, Storm
from kcore.storm.result import ScenarioResult
from kcore.types import Uuid

_CHANGE: Final = "PartitionChangeRecord"
_MOST: Final = 2_250  # Partitions of a request, as Kafka's AssignmentsManager has it.


async def dir_lost(storm: Storm) -> ScenarioResult:
    """A broker with two log directories reports in a heartbeat that the second one, with half its replicas, is offline.

    Timed from that heartbeat until the last broker knows the last new leader and ISR. The broker is given its second
    directory before, and then an empty one in the place of the lost: the wave "assigned" is timed from when the broker
    is back and sends AssignReplicasToDirs for its replicas, until the last broker knows that.
    """
    broker = storm.random.choice(storm.live())
    _, second = await _restart_with_two(storm, broker)
    mine = _replicas_of(storm, broker)[::2]
    await _assign(storm, broker, second, mine)
    await storm.fill_isrs([broker])
    measure = Measure(storm, "dir-lost")
    await measure.begin()
    storm.fleet.lose_directories(broker, [second])
    await storm.until("the directory's replicas to leave the ISRs", lambda: not _in_isr(storm, broker, mine))
    result = await measure.end(_CHANGE)
    _, fresh = await _restart_with_two(storm, broker)
    again = Measure(storm, "dir-lost")
    await again.begin()
    await _assign(storm, broker, fresh, mine)
    await again.wave("assigned", _CHANGE)
    result.waves_ms |= again.result.waves_ms
    await storm.fill_isrs(storm.live())
    return result


async def _restart_with_two(storm: Storm, broker: HollowBroker) -> tuple[Uuid, ...]:
    """The broker stops as it should, and comes back with its first directory and a fresh second one."""
    await storm.fleet.shut_down([broker], storm.timeout_s)
    directories = storm.fleet.replace_directories(broker, 2)
    await storm.fleet.start([broker], clean=True)
    await storm.fleet.unfenced([broker], storm.timeout_s)
    await storm.settled()
    return directories


def _replicas_of(storm: Storm, broker: HollowBroker) -> list[tuple[Uuid, int]]:
    """The partitions that it has a replica of, as topic id and partition index, in order."""
    table = storm.table
    rows = table.index.rows(table.brokers.row(broker.broker_id)).tolist()
    return [(table.topics.ids[table.topic_row__p[row]], int(table.partition_index__p[row])) for row in rows]


def _in_isr(storm: Storm, broker: HollowBroker, partitions: list[tuple[Uuid, int]]) -> bool:
    """Whether the broker is in the ISR of one of these."""
    table = storm.table
    row_of = {topic_id: row for row, topic_id in enumerate(table.topics.ids)}
    rows = table.rows_of([row_of[topic_id] for topic_id, _ in partitions], [index for _, index in partitions])
    return bool((table.isr__pi[rows] == table.brokers.row(broker.broker_id)).any())


async def _assign(storm: Storm, broker: HollowBroker, directory: Uuid, partitions: list[tuple[Uuid, int]]) -> None:
    """The broker assigns its replicas of these partitions to that directory; until all brokers know."""
    requests = [
        _request(broker, directory, partitions[first : first + _MOST]) for first in range(0, len(partitions), _MOST)
    ]
    for answer in await asyncio.gather(*map(storm.quorum.ask, requests)):
        topics = (topic for each in answer.directories for topic in each.topics)
        codes = (partition.error_code for topic in topics for partition in topic.partitions)
        check("AssignReplicasToDirs", [answer.error_code, *codes])
    await storm.settled()


def _request(broker: HollowBroker, directory: Uuid, partitions: list[tuple[Uuid, int]]) -> AssignReplicasToDirsRequest:
    topics: dict[Uuid, schema.AssignReplicasToDirsRequestTopicData] = {}
    for topic_id, index in partitions:
        fresh = schema.AssignReplicasToDirsRequestTopicData(topic_id=topic_id, partitions=[])
        partition = schema.AssignReplicasToDirsRequestPartitionData(partition_index=index)
        topics.setdefault(topic_id, fresh).partitions.append(partition)
    directory_data = schema.AssignReplicasToDirsRequestDirectoryData(id=directory, topics=[*topics.values()])
    return AssignReplicasToDirsRequest(
        broker_id=broker.broker_id, broker_epoch=broker.epoch, directories=[directory_data]
    )
