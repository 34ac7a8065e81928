"""Scenarios in which replicas move to another log directory, and a log directory fails (KIP-858)."""

from collections.abc import Sequence
from typing import Final

from kcore.measure.hollow.fleet import HollowBroker
from kcore.measure.storm.expectations import Bounds, exactly
from kcore.measure.storm.kraft.kraft_storm import Measure, Sizes, Storm
from kcore.measure.storm.kraft.scenarios.topics import check
from kcore.measure.storm.result import ScenarioResult
from kcore.schema import log_dirs as schema
from kcore.schema.log_dirs import AssignReplicasToDirsRequest
from kcore.types import Int32s, Uuid

_CHANGE: Final = "PartitionChangeRecord"
_MOST: Final = 2_250  # The most partitions of a request, as in Kafka's AssignmentsManager.


async def assign(storm: Storm) -> ScenarioResult:
    """A broker with two log directories reports, by AssignReplicasToDirs, that all its replicas are in the second one.

    As Kafka's brokers do, it sends one request after the other, with at most 2,250 partitions each. Timed from the
    first request; afterwards the replicas are assigned to the first directory again.
    """
    [broker], _ = await storm.pick(what="replicas")
    first, second = await _restart_with_two(storm, broker)
    await storm.fill_isrs([broker])
    mine = _replicas_of(storm, broker)
    requests = _requests(broker, second, mine)
    measure = Measure(storm, "assign")
    await measure.begin(exactly(len(mine), "replicas in another directory"))
    await _send(storm, requests)
    measure.answered()
    result = await measure.end(_CHANGE)
    await _send(storm, _requests(broker, first, mine))
    return result


async def dir_lost(storm: Storm) -> ScenarioResult:
    """A broker with two log directories reports in a heartbeat that the second one, with half its replicas, is offline.

    `Sizes.lost_share` sets another share than half, `Sizes.lost_replicas` a number. Timed from that heartbeat until the
    last broker knows the last new leader and ISR. The broker restarts with a second directory before the heartbeat, and
    with an empty one after the failure. The wave "assigned" begins when the broker then sends AssignReplicasToDirs for
    its replicas; the wave ends when the last broker has read the assignments.
    """
    [broker], _ = await storm.pick(what="replicas")
    _, second = await _restart_with_two(storm, broker)
    mine = lost_of(_replicas_of(storm, broker), storm.sizes)
    await _send(storm, _requests(broker, second, mine))
    await storm.fill_isrs([broker])
    rows = _rows_of(storm, mine)
    measure = Measure(storm, "dir-lost")
    await measure.begin(Bounds(_in_isr(storm, broker, rows), len(rows), "replicas in the lost directory"))
    storm.fleet.lose_directories(broker, [second])
    await storm.until("the directory's replicas to leave the ISRs", lambda: not _in_isr(storm, broker, rows))
    result = await measure.end(_CHANGE)
    _, fresh = await _restart_with_two(storm, broker)
    requests = _requests(broker, fresh, mine)
    again = Measure(storm, "dir-lost")
    await again.begin(exactly(len(mine), "replicas in another directory"))
    await _send(storm, requests)
    await again.wave("assigned", _CHANGE)
    result.waves_ms |= again.result.waves_ms
    if flaw := again.flaw(_CHANGE):
        result.invalidate(flaw)
    await storm.fill_isrs(storm.live())
    return result


async def _restart_with_two(storm: Storm, broker: HollowBroker) -> tuple[Uuid, ...]:
    """Restarts the broker cleanly with its first directory and an empty second one; returns both directories."""
    await storm.fleet.shut_down([broker], storm.timeout_s)
    directories = storm.fleet.replace_directories(broker, 2)
    await storm.fleet.start([broker], clean=True)
    await storm.fleet.unfenced([broker], storm.timeout_s)
    await storm.settled()
    return directories


def _replicas_of(storm: Storm, broker: HollowBroker) -> list[tuple[Uuid, int]]:
    """The partitions that have a replica on the broker, as topic id and partition index, in order."""
    table = storm.table
    rows = table.index.rows(table.brokers.row(broker.broker_id)).tolist()
    return [(table.topics.ids[table.topic_row__p[row]], int(table.partition_index__p[row])) for row in rows]


def lost_of(partitions: list[tuple[Uuid, int]], sizes: Sizes) -> list[tuple[Uuid, int]]:
    """Chooses the replicas in the directory that will fail: at least one, evenly from the broker's `partitions`."""
    count = min(sizes.lost_replicas or max(1, round(len(partitions) * sizes.lost_share)), len(partitions))
    return [partitions[at * len(partitions) // count] for at in range(count)]


def _rows_of(storm: Storm, partitions: list[tuple[Uuid, int]]) -> Int32s:
    """The partitions' rows, which are valid until a topic is deleted."""
    row_of = {topic_id: row for row, topic_id in enumerate(storm.table.topics.ids)}
    return storm.table.rows_of([row_of[topic_id] for topic_id, _ in partitions], [index for _, index in partitions])


def _in_isr(storm: Storm, broker: HollowBroker, rows: Int32s) -> int:
    """How many of these partitions have the broker in their ISR."""
    table = storm.table
    return int((table.isr__pi[rows] == table.brokers.row(broker.broker_id)).sum())


async def _send(storm: Storm, requests: Sequence[AssignReplicasToDirsRequest]) -> None:
    """Sends the requests one after the other; TargetError if the controller refuses an assignment."""
    for request in requests:
        answer = await storm.quorum.ask(request)
        topics = (topic for each in answer.directories for topic in each.topics)
        codes = (partition.error_code for topic in topics for partition in topic.partitions)
        check("AssignReplicasToDirs", [answer.error_code, *codes])


def _requests(
    broker: HollowBroker, directory: Uuid, partitions: list[tuple[Uuid, int]]
) -> list[AssignReplicasToDirsRequest]:
    """The requests which report that the broker's replicas of these partitions are in that directory."""
    firsts = range(0, len(partitions), _MOST)
    return [_request(broker, directory, partitions[first : first + _MOST]) for first in firsts]


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
