"""Scenarios that create, move and delete topics, and elect preferred leaders."""

from collections import defaultdict
from collections.abc import Collection, Iterator
from typing import Final

import numpy as np

from kcore.errors import TargetError
from kcore.measure.storm.expectations import Bounds, exactly
from kcore.measure.storm.kraft.kraft_storm import Measure, Storm, replicas_of
from kcore.measure.storm.moves import replaced
from kcore.measure.storm.result import ScenarioResult
from kcore.metadata.table.partition_table import PartitionTable
from kcore.protocol_errors import Errors
from kcore.schema import partitions as schema
from kcore.schema.topics import CreatableTopic, CreateTopicsRequest, DeleteTopicsRequest, DeleteTopicState
from kcore.types import Int32s

MOST_RECORDS: Final = 9_900  # The largest request: a controller refuses a whole request of more than 10,000 records.
_TIMEOUT_MS: Final = 60_000
_CHANGE: Final = "PartitionChangeRecord"


async def create(storm: Storm) -> ScenarioResult:
    """Topics are created, by requests as large as the controller takes. Timed until the last broker knows them all.

    Each request is sent after the answer to the previous one.
    """
    measure = Measure(storm, "create")
    await measure.begin(exactly(storm.sizes.partitions, "partitions to create"))
    await make_topics(storm, storm.fresh_topics())
    measure.answered()
    return await measure.end("PartitionRecord")


async def make_topics(storm: Storm, wanted: list[tuple[str, int]]) -> None:
    """Creates topics, each given by name and number of partitions. TargetError if the controller refuses one."""
    for request in requests_for(wanted, storm.sizes.replication_factor):
        storm.place(request)
        answer = await storm.quorum.ask(request)
        # A topic exists already if the answer to its request was lost and the request is repeated.
        check("CreateTopics", (each.error_code for each in answer.topics), {Errors.TOPIC_ALREADY_EXISTS})
    storm.topics += [name for name, _ in wanted]
    storm.named += len(wanted)


async def preferred_election(storm: Storm) -> ScenarioResult:
    """All preferred leaders that are in the ISR and do not lead become leaders again, by ElectLeaders.

    If there are none, a broker first restarts. Timed from the first request; requests are sent one after the other.
    """
    if not len(_not_preferred(storm)):
        away, _ = await storm.pick()
        await storm.fleet.shut_down(away, storm.timeout_s)
        await storm.restore(away, clean=True)
    measure = Measure(storm, "preferred-election")
    wanted = _not_preferred(storm)
    await measure.begin(exactly(len(wanted), "partitions whose preferred leader could lead and does not"))
    for at in range(0, len(wanted), MOST_RECORDS):  # One request may change so many.
        rows = wanted[at : at + MOST_RECORDS]
        topics = [schema.TopicPartitions(topic=name, partitions=found) for name, found in by_topic(storm, rows)]
        answer = await storm.quorum.ask(schema.ElectLeadersRequest(topic_partitions=topics, timeout_ms=_TIMEOUT_MS))
        codes = (each.error_code for topic in answer.replica_election_results for each in topic.partition_result)
        check("ElectLeaders", [answer.error_code, *codes], {Errors.ELECTION_NOT_NEEDED})
    measure.answered()
    return await measure.end(_CHANGE)


async def reassign(storm: Storm) -> ScenarioResult:
    """All partitions of one broker move to others, by AlterPartitionReassignments; they are moved back afterwards.

    Timed from the first request until the controller has accepted the last one, and until the last broker has read
    that the last move is finished. The leaders add new replicas to the ISRs as soon as they have read the moves.
    """
    table, live = storm.table, [broker.broker_id for broker in storm.live()]
    [broker], _ = await storm.pick()
    leaving = broker.broker_id
    rows = table.index.rows(table.brokers.row(leaving)).copy()
    before = [storm.replicas(row) for row in rows.tolist()]
    after = [replaced(replicas, leaving, live, at) for at, replicas in enumerate(before)]
    measure = Measure(storm, "reassign")
    await measure.begin(Bounds(max(1, 2 * len(rows)), 4 * len(rows), f"{len(rows):,} partitions begin and end a move"))
    await _move(storm, rows, after)
    measure.answered()
    await _finish_moves(storm)
    result = await measure.end(_CHANGE)
    await _move(storm, rows, before)
    await _finish_moves(storm)
    return result


async def delete_topics(storm: Storm) -> ScenarioResult:
    """A share of the topics, `sizes.deleted_share`, is deleted. Timed until the last broker knows the last deletion."""
    if not storm.topics:
        raise TargetError("delete-topics needs topics that this run has made")
    gone = storm.random.sample(storm.topics, max(1, int(len(storm.topics) * storm.sizes.deleted_share)))
    measure = Measure(storm, "delete-topics")
    await measure.begin(exactly(len(gone), "topics to delete"))
    for at in range(0, len(gone), MOST_RECORDS):
        states = [DeleteTopicState(name=name) for name in gone[at : at + MOST_RECORDS]]
        answer = await storm.quorum.ask(DeleteTopicsRequest(topics=states, timeout_ms=_TIMEOUT_MS))
        codes = (each.error_code for each in answer.responses)
        check("DeleteTopics", codes, {Errors.UNKNOWN_TOPIC_OR_PARTITION})
    measure.answered()
    left = set(storm.topics) - set(gone)
    storm.topics = [name for name in storm.topics if name in left]
    return await measure.end("RemoveTopicRecord")


def check(request: str, codes: Collection[int] | Iterator[int], fine: Collection[int] = ()) -> None:
    """Raises a TargetError if one of the codes is an error that is not in `fine`."""
    if wrong := {Errors.of(code).name for code in codes if code and code not in fine}:
        raise TargetError(f"{request} was refused: {', '.join(sorted(wrong))}")


def requests_for(topics: list[tuple[str, int]], replication_factor: int) -> list[CreateTopicsRequest]:
    """Divides topics into requests of at most MOST_RECORDS records: one per topic and one per partition."""
    requests: list[CreateTopicsRequest] = []
    records = MOST_RECORDS
    for name, partitions in topics:
        if records + 1 + partitions > MOST_RECORDS:
            requests.append(CreateTopicsRequest(topics=[], timeout_ms=_TIMEOUT_MS))
            records = 0
        topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=replication_factor)
        requests[-1].topics.append(topic)
        records += 1 + partitions
    return requests


def _not_preferred(storm: Storm) -> Int32s:
    """Rows of the partitions whose first replica could lead and does not."""
    table = storm.table
    preferred = table.replicas__ps[:, 0]
    able = (table.isr__pi == preferred[:, None]).any(axis=1) & table.brokers.live[preferred]
    rows: Int32s = np.flatnonzero(able & (table.leader__p != preferred)).astype(np.int32)
    return rows


def by_topic(storm: Storm, rows: Int32s) -> list[tuple[str, list[int]]]:
    """The topics of these rows, each with the indexes of its partitions among the rows."""
    table = storm.table
    found: dict[str, list[int]] = defaultdict(list)
    for row in rows.tolist():
        found[table.topics.names[table.topic_row__p[row]]].append(int(table.partition_index__p[row]))
    return list(found.items())


async def _move(storm: Storm, rows: Int32s, replicas: list[list[int]]) -> None:
    """Requests new replicas of these partitions. TargetError if the controller refuses one."""
    for begin in range(0, len(rows), MOST_RECORDS):
        answer = await ask_to_move(storm, rows[begin : begin + MOST_RECORDS], replicas[begin : begin + MOST_RECORDS])
        codes = (each.error_code for topic in answer.responses for each in topic.partitions)
        check("AlterPartitionReassignments", [answer.error_code, *codes])


async def ask_to_move(
    storm: Storm, rows: Int32s, replicas: list[list[int]]
) -> schema.AlterPartitionReassignmentsResponse:
    """Sends one request for new replicas of these partitions, and returns the answer."""
    table = storm.table
    topics: dict[str, schema.ReassignableTopic] = {}
    for row, wanted in zip(rows.tolist(), replicas, strict=True):
        name = table.topics.names[table.topic_row__p[row]]
        topic = topics.setdefault(name, schema.ReassignableTopic(name=name, partitions=[]))
        index = int(table.partition_index__p[row])
        topic.partitions.append(schema.ReassignablePartition(partition_index=index, replicas=wanted))
    request = schema.AlterPartitionReassignmentsRequest(topics=[*topics.values()], timeout_ms=_TIMEOUT_MS)
    answer: schema.AlterPartitionReassignmentsResponse = await storm.quorum.ask(request)
    return answer


async def _finish_moves(storm: Storm) -> None:
    """The leaders take new replicas into the ISRs until no partition moves any more."""
    await storm.settled()
    await storm.alter_isrs("move", _moving, replicas_of)


def _moving(table: PartitionTable) -> Int32s:
    return np.array(sorted(table.adding.keys() | table.removing.keys()), np.int32)
