"""Limits of a controller: its response to one change more than it accepts, and the changes that it makes anyway."""

import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

import numpy as np

from kcore.errors import TargetError
from kcore.measure.hollow import isr
from kcore.measure.storm.expectations import Bounds
from kcore.measure.storm.kraft.kraft_storm import Measure, Storm
from kcore.measure.storm.kraft.scenarios.topics import ask_to_move, by_topic, check, make_topics
from kcore.measure.storm.result import ScenarioResult
from kcore.protocol_errors import Errors
from kcore.schema import partitions as schema
from kcore.schema import topics as topic_schema
from kcore.types import Int32s

EDGE: Final = 10_000  # The most records of a batch, and of a user's request: QuorumController.MAX_RECORDS_PER_USER_OP.
_PROBED: Final = 16_384  # The most partitions that `limit_create` tries for a topic.
_A_TOPIC: Final = 5_000  # The most partitions of a topic in `_make_pairs`.
_TIMEOUT_MS: Final = 60_000
_MILLIS: Final = 1e6
_DELETED_AT_ONCE: Final = 5_000
_CHANGE: Final = "PartitionChangeRecord"
_HAS_NONE: Final = "this controller does not have the limit"

PartitionErrors = Iterable[tuple[int, str | None]]
Asking = Callable[[Int32s], Awaitable[str]]


# Scenarios with a request that is too large: a controller refuses the whole request, or does a part.


async def limit_create(storm: Storm) -> ScenarioResult:
    """CreateTopics: the largest topic that a request may make; one partition more is refused, and nothing is made."""
    low, high = 1, _PROBED
    while high - low > 1:  # With validate_only, a request is refused like a real one.
        middle = (low + high) // 2
        taken = not any(code for code, _ in await _create(storm, middle, validate_only=True))
        low, high = (middle, high) if taken else (low, middle)
    measure = Measure(storm, "limit-create")
    await measure.begin(Bounds(low, low + high, f"partitions of two topics, of {low:,} and {high:,}"))
    refused = await _create(storm, high) if high < _PROBED else []
    await storm.settled()
    made = len(measure.changes("PartitionRecord"))
    taken_now = await _create(storm, low)
    check("CreateTopics", (code for code, _ in taken_now))
    measure.answered()
    result = await measure.end("PartitionRecord")
    result.note = f"a topic of {low:,} partitions, {low + 1:,} records in one request: {_format_errors(taken_now)}; "
    result.note += f"of {high:,}: {_format_errors(refused)}, {made:,} made" if refused else _HAS_NONE
    await _delete_limits(storm)
    return result


async def limit_partitions(storm: Storm) -> ScenarioResult:
    """CreatePartitions with 10,001 more partitions for a topic: the answer, and how many the topic gets."""
    [name] = await _make_pairs(storm, 1)
    pair = storm.replicas(int(_rows(storm, [name])[0]))
    more = [schema.CreatePartitionsAssignment(broker_ids=pair)] * (EDGE + 1)
    wanted = schema.CreatePartitionsTopic(name=name, count=EDGE + 2, assignments=more)
    measure = Measure(storm, "limit-partitions")
    await measure.begin(Bounds(0, EDGE + 1, "partitions asked for"))
    answer = await storm.quorum.ask(schema.CreatePartitionsRequest(topics=[wanted], timeout_ms=_TIMEOUT_MS))
    measure.answered()
    result = await measure.end("PartitionRecord")
    codes = ((each.error_code, each.error_message) for each in answer.results)
    result.note = one_too_many("partitions more of one topic", codes, result.changes, "made")
    await _delete_limits(storm)
    return result


async def limit_reassign(storm: Storm) -> ScenarioResult:
    """AlterPartitionReassignments: 10,001 partitions get another order of replicas by one request."""
    names = await _make_pairs(storm, EDGE + 1)
    rows = _rows(storm, names)
    measure = Measure(storm, "limit-reassign")
    await measure.begin(Bounds(0, EDGE + 1, "partitions asked for"))
    answer = await _reordered(storm, rows)
    measure.answered()
    result = await measure.end(_CHANGE)
    codes = ((each.error_code, each.error_message) for topic in answer.responses for each in topic.partitions)
    top = [(answer.error_code, answer.error_message)] if answer.error_code else []
    result.note = one_too_many("partitions in one request", [*top, *codes], result.changes, "changed")
    await _delete_limits(storm)
    return result


async def limit_delete(storm: Storm) -> ScenarioResult:
    """DeleteTopics: 10,001 topics of one partition by one request; the rest is deleted afterwards."""
    first = storm.named
    await make_topics(storm, [(f"{storm.prefix}{first + at:06}", 1) for at in range(EDGE + 1)])
    names = storm.topics[-(EDGE + 1) :]
    measure = Measure(storm, "limit-delete")
    await measure.begin(Bounds(0, EDGE + 1, "topics asked for"))
    answer = await _delete(storm, names)
    measure.answered()
    result = await measure.end("RemoveTopicRecord")
    codes = ((each.error_code, each.error_message) for each in answer.responses)
    result.note = one_too_many("topics in one request", codes, result.changes, "deleted")
    left = [name for name in names if name in storm.fleet.observer.image.topics]
    for begin in range(0, len(left), _DELETED_AT_ONCE):
        await _delete(storm, left[begin : begin + _DELETED_AT_ONCE])
    storm.topics = storm.topics[: -(EDGE + 1)]
    return result


def one_too_many(what: str, answers: PartitionErrors, done: int, verb: str) -> str:
    """The note on a request for one change more than the limit: the answer, and how many changes were made anyway."""
    found = f"{EDGE + 1:,} {what}: {_format_errors(answers)}; {done:,} are {verb}"
    return f"{found}: {_HAS_NONE}" if done > EDGE else found


# Exactly 10,000 records that may be split: QuorumController.appendRecords of 4.3.1 then ends with an empty batch. An
# empty batch is a fault: the active controller resigns. Whether it sends the full batch before that is a race.


async def limit_elect(storm: Storm) -> ScenarioResult:
    """ElectLeaders that moves exactly 10,000 partitions: the answer, and whether the active controller resigns."""

    async def prepare(rows: Int32s) -> None:
        table = storm.table
        led = table.leader__p[rows] == table.replicas__ps[rows, 0]
        for part in np.array_split(rows[led], 2):
            if len(part):
                await _reordered(storm, part)
        await storm.settled()

    async def elect(rows: Int32s) -> str:
        topics = [schema.TopicPartitions(topic=name, partitions=found) for name, found in by_topic(storm, rows)]
        answer = await storm.quorum.ask(schema.ElectLeadersRequest(topic_partitions=topics, timeout_ms=_TIMEOUT_MS))
        if answer.error_code:
            return _format_errors([(answer.error_code, None)])
        every = (each for topic in answer.replica_election_results for each in topic.partition_result)
        return _format_errors((each.error_code, each.error_message) for each in every)

    return await _exactly(storm, "limit-elect", "elections in one request", prepare, elect)


async def limit_isr(storm: Storm) -> ScenarioResult:
    """AlterPartition that shrinks exactly 10,000 ISRs: the answer, and whether the active controller resigns."""

    async def prepare(_: Int32s) -> None:
        await storm.fill_isrs(storm.live())

    async def shrink(rows: Int32s) -> str:
        table = storm.table
        [leader] = set(table.brokers.ids[table.leader__p[rows]].tolist())
        request = isr.request_of(table, rows, [[leader]] * len(rows), range(len(rows)), storm.fleet.brokers, leader)
        answer = await storm.quorum.ask(request)
        if answer.error_code:
            return _format_errors([(answer.error_code, None)])
        return _format_errors((each.error_code, None) for topic in answer.topics for each in topic.partitions)

    return await _exactly(storm, "limit-isr", "ISRs shrunk by one request", prepare, shrink)


async def _exactly(
    storm: Storm, scenario: str, what: str, prepare: Callable[[Int32s], Awaitable[None]], ask: Asking
) -> ScenarioResult:
    """Sends a request for EDGE - 1 changes, then one for EDGE: measures the answer, and when a controller serves again.

    The row is about the second request. `answered_ms`: until its answer. The wave "serves again": until a topic of one
    partition, requested right after the answer, is created.
    """
    names = await _make_pairs(storm, EDGE)
    await prepare(_rows(storm, names))
    before = await ask(_rows(storm, names)[:-1])
    await storm.settled()
    await prepare(_rows(storm, names))
    measure = Measure(storm, scenario)
    await measure.begin(Bounds(0, EDGE, "changes asked for"))
    epoch = (await storm.quorum.describe()).leader_epoch
    errors = await ask(_rows(storm, names))
    measure.answered()
    result = await _served_again(storm, measure, epoch)
    result.note = f"{EDGE - 1:,} {what}: {before}; {EDGE:,}: {errors}, {result.changes:,} are in the log; {result.note}"
    await storm.fill_isrs(storm.live())
    await _delete_limits(storm)
    return result


async def limit_fence(storm: Storm) -> ScenarioResult:
    """A broker dies whose fencing takes exactly 10,000 records: whether the active controller then resigns."""
    lost = storm.live()[-1]
    mine = len(storm.table.index.rows(storm.table.brokers.row(lost.broker_id)))
    missing = (EDGE - 1 - mine) % EDGE  # One record is about the broker itself.
    await _make_pairs(storm, missing, follower=lost.broker_id)
    measure = Measure(storm, "limit-fence")
    await measure.begin(Bounds(0, mine + missing, "partitions of the lost broker"))
    epoch = (await storm.quorum.describe()).leader_epoch
    storm.fleet.kill([lost])
    await storm.until("the broker to be fenced", lambda: storm.is_fenced(lost))
    measure.answered()
    result = await _served_again(storm, measure, epoch)
    result.note = f"a broker with {mine + missing:,} partitions is lost, {result.changes:,} change; {result.note}"
    await storm.restore([lost])
    await _delete_limits(storm)
    return result


async def _served_again(storm: Storm, measure: Measure, epoch: int) -> ScenarioResult:
    """Creates a topic and returns the result. Its note says whether the leader has changed since `epoch`."""
    begun = time.monotonic_ns()
    await make_topics(storm, [(f"{storm.prefix}{storm.named:06}", 1)])
    again_ms = (time.monotonic_ns() - begun) / _MILLIS
    result = await measure.end(_CHANGE)
    result.waves_ms["serves again"] = again_ms
    now = (await storm.quorum.describe()).leader_epoch
    result.note = f"the active controller stays: {_HAS_NONE}"
    if now != epoch:
        result.note = (
            f"the active controller resigns, epoch {epoch} to {now}, and serves again after {again_ms:,.0f} ms"
        )
    return result


# The topics of these scenarios.


async def _create(storm: Storm, partitions: int, *, validate_only: bool = False) -> list[tuple[int, str | None]]:
    """Requests one topic; returns the answer. A topic that is created is added to `storm.topics`."""
    factor = storm.sizes.replication_factor
    topic = topic_schema.CreatableTopic(
        name=f"{storm.prefix}{storm.named:06}-limit", num_partitions=partitions, replication_factor=factor
    )
    request = topic_schema.CreateTopicsRequest(topics=[topic], timeout_ms=_TIMEOUT_MS, validate_only=validate_only)
    storm.place(request)
    answer = await storm.quorum.ask(request)
    found = [(each.error_code, each.error_message) for each in answer.topics]
    if not validate_only and not any(code for code, _ in found):
        storm.topics.append(topic.name)
        storm.named += 1
    return found


async def _make_pairs(storm: Storm, partitions: int, follower: int | None = None) -> list[str]:
    """Creates topics whose partitions all have the same two replicas, the leader first; returns the topics' names."""
    ids = [broker.broker_id for broker in storm.live()]
    if len(ids) < 2:
        raise TargetError("limits of partitions with two replicas need two brokers")
    pair = [ids[0], ids[-1] if follower is None else follower]
    counts = [min(_A_TOPIC, partitions - begin) for begin in range(0, partitions, _A_TOPIC)]
    names = [f"{storm.prefix}{storm.named + at:06}-limit" for at in range(len(counts))]
    for name, count in zip(names, counts, strict=True):
        replicas = [topic_schema.CreatableReplicaAssignment(partition_index=at, broker_ids=pair) for at in range(count)]
        topic = topic_schema.CreatableTopic(name=name, num_partitions=-1, replication_factor=-1, assignments=replicas)
        answer = await storm.quorum.ask(topic_schema.CreateTopicsRequest(topics=[topic], timeout_ms=_TIMEOUT_MS))
        check("CreateTopics", (each.error_code for each in answer.topics), {Errors.TOPIC_ALREADY_EXISTS})
    storm.topics += names
    storm.named += len(names)
    await storm.settled()
    return names


async def _delete_limits(storm: Storm) -> None:
    """Deletes the topics of these scenarios."""
    names = [name for name in storm.topics if name.endswith("-limit")]
    answer = await _delete(storm, names)
    check("DeleteTopics", (each.error_code for each in answer.responses), {Errors.UNKNOWN_TOPIC_OR_PARTITION})
    storm.topics = [name for name in storm.topics if not name.endswith("-limit")]
    await storm.settled()


async def _delete(storm: Storm, names: list[str]) -> topic_schema.DeleteTopicsResponse:
    states = [topic_schema.DeleteTopicState(name=name) for name in names]
    answer: topic_schema.DeleteTopicsResponse = await storm.quorum.ask(
        topic_schema.DeleteTopicsRequest(topics=states, timeout_ms=_TIMEOUT_MS)
    )
    return answer


def _rows(storm: Storm, names: list[str]) -> Int32s:
    """The rows of these topics' partitions."""
    table = storm.table
    wanted = [at for at, name in enumerate(table.topics.names) if name in set(names)]
    rows: Int32s = np.flatnonzero(np.isin(table.topic_row__p, wanted)).astype(np.int32)
    return rows


async def _reordered(storm: Storm, rows: Int32s) -> schema.AlterPartitionReassignmentsResponse:
    """Reverses the partitions' replicas by one request: the last one becomes the preferred leader, the leader stays."""
    return await ask_to_move(storm, rows, [storm.replicas(row)[::-1] for row in rows.tolist()])


def _format_errors(answers: PartitionErrors) -> str:
    """The distinct errors, each with its count."""
    counts = Counter((Errors.of(code).name, message) for code, message in answers)
    texts = ((count, "done" if name == "NONE" else f"{name} ({message})" if message else name)
             for (name, message), count in counts.items())  # fmt: skip
    return ", ".join(text if len(counts) == 1 and count == 1 else f"{count:,} x {text}" for count, text in texts)
