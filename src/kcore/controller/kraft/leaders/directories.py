"""AssignReplicasToDirs: a broker reports the log directories of its replicas (KIP-858).

Source: ControllerApis.handleAssignReplicasToDirs, ReplicationControlManager.handleAssignReplicasToDirs.
"""

from collections.abc import Collection, Generator, Iterable, Sequence
from itertools import islice
from typing import Final, TypeVar

import numpy as np

from kcore.controller.kraft.decision import AT_ONCE, Decision, Steps
from kcore.controller.kraft.departures import OFFLINE_LEADERS, REPLACED_DISKS
from kcore.controller.kraft.kraft_context import ControllerContext, RequestInfo
from kcore.controller.kraft.leaders.named import (
    in_runs,
    is_current_epoch,
    mark,
    named_too_often,
    rows_named,
    topic_rows_by_id,
)
from kcore.metadata.acl_codes import CLUSTER_ACTION
from kcore.metadata.image.image import ClusterImage
from kcore.metadata.table.partition_table import PartitionTable
from kcore.protocol_errors import Errors
from kcore.replication.kraft_changes import KraftSettings
from kcore.replication.kraft_events import replicas_lost
from kcore.replication.kraft_moves import are_online, directories_assigned, directories_assigned_as_they_are
from kcore.replication.kraft_results import KraftElections
from kcore.schema.log_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsRequestTopicData,
    AssignReplicasToDirsResponse,
    AssignReplicasToDirsResponseDirectoryData,
    AssignReplicasToDirsResponsePartitionData,
    AssignReplicasToDirsResponseTopicData,
)
from kcore.types import Int16s, Int32s, Int64s, Uuid

_Entries = TypeVar("_Entries", Int32s, Int64s)
DECIDED_AT_ONCE: Final = 10 * AT_ONCE  # Assignments in one part; one request of a Kafka broker has at most 2,250.


def on_assign_replicas_to_dirs(
    context: ControllerContext, request: AssignReplicasToDirsRequest, info: RequestInfo
) -> Steps:
    """Assign replicas to directories, which may be unregistered. A replica in an offline directory leaves the ISR."""
    if not context.is_authorized(info, CLUSTER_ACTION):
        return _refused(Errors.CLUSTER_AUTHORIZATION_FAILED)
    context.call_controller()
    if not context.version.directories_supported:
        return _refused(Errors.UNSUPPORTED_VERSION)
    table, brokers = context.image.table, context.image.brokers
    if not is_current_epoch(brokers, request.broker_id, request.broker_epoch):
        return _refused(Errors.STALE_BROKER_EPOCH)
    rows, errors = yield from _named(table, request)
    wanted = np.flatnonzero(errors == 0)
    uuids = [directory.id for directory in request.directories]
    counts = [sum(map(_size, directory.topics)) for directory in request.directories]
    places = np.repeat(np.arange(len(uuids), dtype=np.int32), counts)[wanted]
    directories = _directory_rows(context.image, uuids, places)
    kafka_way = context.config.kafka_way
    assigned = request.broker_id, rows[wanted], directories
    yield from _pause_if_large(len(rows))
    records = yield from _decided(table, context.kraft_settings(), *assigned, kafka_way=kafka_way)
    response = yield from answered(request, errors.tolist())
    return Decision(response, records, is_atomic=False)


def _refused(error: Errors) -> Decision:
    return Decision(AssignReplicasToDirsResponse(error_code=error))


def _size(topic: AssignReplicasToDirsRequestTopicData) -> int:
    return len(topic.partitions)


def _pause_if_large(count: int) -> Generator[None, None, None]:
    """End the present part of a decision about `count` assignments if these are more than DECIDED_AT_ONCE."""
    if count > DECIDED_AT_ONCE:
        yield


def _named(table: PartitionTable, request: AssignReplicasToDirsRequest) -> Generator[None, None, tuple[Int32s, Int16s]]:
    """The row of each assignment's partition, in the request's order, and the assignment's error."""
    topics = [topic for directory in request.directories for topic in directory.topics]
    topic_rows, sizes = topic_rows_by_id(table, [topic.topic_id for topic in topics]), [*map(_size, topics)]
    rows = rows_named(table, topic_rows, sizes, [each.partition_index for topic in topics for each in topic.partitions])
    yield from _pause_if_large(len(rows))
    errors = np.zeros(len(rows), np.int16)
    mark(errors, np.repeat(np.array(topic_rows, np.int32) < 0, sizes), Errors.UNKNOWN_TOPIC_ID)
    mark(errors, rows < 0, Errors.UNKNOWN_TOPIC_OR_PARTITION)
    if len(table):
        is_elsewhere = (table.replicas__ps[rows] != table.brokers.row(request.broker_id)).all(axis=1)
        mark(errors, is_elsewhere, Errors.NOT_LEADER_OR_FOLLOWER)
        mark(errors, named_too_often(rows), Errors.INVALID_REQUEST)
    return rows, errors


def _directory_rows(image: ClusterImage, uuids: Sequence[Uuid], places: Int32s) -> Int32s:
    """The row of the directory `uuids[place]` for each place.

    An unknown directory gets a row, because decisions refer to directories by row. The new row does not change the
    state, because a row without replicas has no meaning.
    """
    used = np.unique(places).tolist()
    by_place = np.zeros(len(uuids), np.int32)
    by_place[used] = image.directories.name(uuids[place] for place in used)
    return by_place[places]


def _decided(
    table: PartitionTable,
    settings: KraftSettings,
    broker_id: int,
    rows: Int32s,
    directories: Int32s,
    *,
    kafka_way: Collection[str],
) -> Generator[None, None, list[KraftElections]]:
    """The changes: first the assignments in the request's order, then ISRs without the replicas in offline directories.

    `kafka_way`: the switched-back departures; only "offline-directories-lead" and "replaced-disks-lead" matter.
    """
    records: list[KraftElections] = []
    for places in (part for run in in_runs(rows) for part in _parts(run)):
        assigned = table, settings, broker_id, rows[places], directories[places]
        if OFFLINE_LEADERS in kafka_way:
            records.append(directories_assigned(*assigned))
        else:
            records += directories_assigned_as_they_are(*assigned, replaced_lead=REPLACED_DISKS in kafka_way)
        yield from _pause_if_large(len(rows))
    online = are_online(table, broker_id, directories)
    if not online.all():
        for part in _parts(np.unique(rows[~online])):
            records.append(replicas_lost(table, settings, broker_id, part))
            yield from _pause_if_large(len(rows))
    return [changes for changes in records if len(changes)]


def _parts(entries: _Entries) -> list[_Entries]:
    """The entries in groups of at most DECIDED_AT_ONCE."""
    return np.split(entries, range(DECIDED_AT_ONCE, len(entries), DECIDED_AT_ONCE))


def answered(
    request: AssignReplicasToDirsRequest, errors: Iterable[int]
) -> Generator[None, None, AssignReplicasToDirsResponse]:
    """The response with the error code of each assignment, in the request's order; made in parts."""
    codes, directories, since_pause = iter(errors), list[AssignReplicasToDirsResponseDirectoryData](), 0
    for directory in request.directories:
        topics = list[AssignReplicasToDirsResponseTopicData]()
        for topic in directory.topics:
            partitions = list[AssignReplicasToDirsResponsePartitionData]()
            for begin in range(0, _size(topic), DECIDED_AT_ONCE):
                part = topic.partitions[begin : begin + DECIDED_AT_ONCE]
                partitions += [
                    AssignReplicasToDirsResponsePartitionData(partition_index=each.partition_index, error_code=code)
                    for each, code in zip(part, islice(codes, len(part)), strict=True)
                ]
                since_pause += len(part)
                if since_pause >= DECIDED_AT_ONCE:
                    yield
                    since_pause = 0
            topics.append(AssignReplicasToDirsResponseTopicData(topic_id=topic.topic_id, partitions=partitions))
        directories.append(AssignReplicasToDirsResponseDirectoryData(id=directory.id, topics=topics))
    return AssignReplicasToDirsResponse(directories=directories)
