"""Takes the assignments of partitions from ZooKeeper into the table, and replaces replicas on unfit brokers."""

import logging
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

import numpy as np

from kcore.constants import INTERNAL_TOPICS, NO_EPOCH, NO_LEADER
from kcore.controller.rules.replica_assignments import assignments_of
from kcore.controller.zk.effects import Steps
from kcore.controller.zk.zk_context import ControllerContext
from kcore.controller.zk.znode_reading import read_topic
from kcore.errors import TableError
from kcore.metadata.table.arrays import padded
from kcore.metadata.table.broker_table import BrokerTable
from kcore.metadata.table.change_sets import no_changes
from kcore.metadata.table.changes import PartitionChanges
from kcore.metadata.table.partition_state import ReplicaAssignment
from kcore.metadata.table.partition_table import NO_TOPIC, PartitionTable
from kcore.metadata.table.topic_table import TopicTable
from kcore.metadata.zookeeper import znodes
from kcore.metadata.zookeeper.znode_operations import OperationResult, SetData
from kcore.metadata.zookeeper.znode_topics import TopicAssignments
from kcore.metadata.zookeeper.znodes import TopicAssignment
from kcore.node.zk.inter_broker_protocol import at_least
from kcore.node.zk.znode_steps import Pause, pass_over, pause_after, read_nodes, write_nodes
from kcore.steps import lists_of
from kcore.types import ZERO_UUID, Bools, Int32s

logger = logging.getLogger(__name__)
MOST_NAMES: Final = 5  # The most topics that one line of the log names.
ADDED_AT_ONCE: Final = 500  # Partitions of new topics that one part adds to the table: each takes up to 6 us.
_OF_A_TOPIC: Final = 50  # The work of a topic, in partitions.
GIVEN_AT_ONCE: Final = 100  # Topics of one part that encodes them with new ids: a small one takes some 50 us.


def arrays_of(topics: TopicAssignments, brokers: BrokerTable) -> dict[str, Any]:
    """The arguments of PartitionTable.from_arrays for partitions without states; adds unknown brokers to `brokers`."""
    count = len(topics.partition_indexes)
    unknown = np.full(count, NO_EPOCH, np.int32)
    name_brokers(brokers, np.unique(topics.replicas).tolist())
    return {
        "replicas": topics.replicas,
        "isr": np.empty((count, 0), np.int32),
        "leaders": np.full(count, NO_LEADER, np.int32),
        "leader_epochs": unknown,
        "partition_epochs": unknown,
        "controller_epochs": unknown,
        "topics": TopicTable(topics.names, [topic_id or ZERO_UUID for topic_id in topics.topic_ids]),
        "topic_rows": topics.topic_rows,
        "partition_indexes": topics.partition_indexes,
        "brokers": brokers,
        "adding": topics.adding_replicas,
        "removing": topics.removing_replicas,
    }


def _numbers(values: Iterable[int]) -> Int32s:
    return np.array(list(values), np.int32)


def _lists(lists: Iterable[Iterable[int]]) -> Int32s:
    kept = [tuple(each) for each in lists]
    return padded(np.cumsum([0, *map(len, kept)]), _numbers(broker for each in kept for broker in each))


def name_brokers(brokers: BrokerTable, ids: Iterable[int]) -> None:
    """Adds rows for the brokers without one; these are not live, and have no epoch or endpoints."""
    for broker_id in sorted({*ids} - {NO_LEADER}):
        brokers.name(broker_id)


def know_brokers(table: PartitionTable, *ids: Int32s) -> None:
    """Calls `name_brokers` for all broker ids in these columns."""
    name_brokers(table.brokers, np.unique(np.concatenate(ids)).tolist())


def add_topics(table: PartitionTable, topics: Mapping[str, TopicAssignment]) -> Steps[list[Int32s]]:
    """Adds topics to the table in parts, with partitions that have no state. Returns the rows of each topic."""
    added: list[Int32s] = []
    for some in lists_of(topics.items(), ADDED_AT_ONCE, lambda item: _OF_A_TOPIC + len(item[1].partitions)):
        if added:
            yield Pause()
        rows = []
        for name, topic in some:
            table.topics.add(name, topic.topic_id or ZERO_UUID)
            rows.append(_placed(table, name, topic.partitions))
        _take_states(table, np.concatenate(rows))
        added += rows
    return added


def add_partitions(table: PartitionTable, name: str, partitions: Mapping[int, ReplicaAssignment]) -> Int32s:
    """Adds partitions without a state to a topic of the table. Returns their rows, ascending."""
    added = _placed(table, name, partitions)
    _take_states(table, added)
    return added


def _placed(table: PartitionTable, name: str, partitions: Mapping[int, ReplicaAssignment]) -> Int32s:
    """Adds the partitions to the table and returns their rows; a partition without replicas is left out."""
    name_brokers(table.brokers, (broker for each in partitions.values() for broker in each.replicas))
    rows = []
    for run in _runs(sorted(index for index, each in partitions.items() if each.replicas)):
        replicas = _lists(partitions[index].replicas for index in run)
        rows.append(table.add_partitions(name, replicas, first_partition=run[0]))
    return np.sort(np.concatenate(rows)) if rows else np.empty(0, np.int32)


def _take_states(table: PartitionTable, rows: Int32s) -> None:
    table.apply(_no_states(rows), controller_epoch=NO_EPOCH, check_epochs=False)


def _runs(indexes: list[int]) -> list[list[int]]:
    """Splits ascending numbers into runs without gaps."""
    runs: list[list[int]] = []
    for index in indexes:
        if runs and runs[-1][-1] == index - 1:
            runs[-1].append(index)
        else:
            runs.append([index])
    return runs


def _no_states(rows: Int32s) -> PartitionChanges:
    nothing, unknown = no_changes(), np.full(len(rows), NO_EPOCH, np.int32)
    return PartitionChanges(
        rows=rows,
        leaders=np.full(len(rows), NO_LEADER, np.int32),
        isr_offsets=np.zeros(len(rows) + 1, np.int32),
        isr=nothing.isr,
        leader_epochs=unknown,
        partition_epochs=unknown,
        recovery=np.zeros(len(rows), np.int8),
    )


def of_topic(table: PartitionTable, name: str) -> TopicAssignment:
    """A topic's assignment in the table, in the form of its znode."""
    topic_id = table.topics.ids[table.topics.row(name)]
    rows = table.rows_of_topic(name)
    known = assignments_of(table, rows)
    partitions = dict(zip(table.partition_index__p[rows].tolist(), known.values(), strict=True))
    return TopicAssignment(None if topic_id == ZERO_UUID else topic_id, partitions)


def give_topic_ids(context: ControllerContext, names: Iterable[str]) -> Steps[None]:
    """Gives ids to topics from before KIP-516, in ZooKeeper and then in the table (KafkaZkClient.setTopicIds)."""
    topics = context.table.topics
    without = [name for name in names if topics.ids[topics.row(name)] == ZERO_UUID]
    if not without or not at_least(context.config.inter_broker_protocol, "2.8-IV0"):
        return
    given = {name: context.new_uuid() for name in without}
    operations = []
    for place, name in enumerate(without, 1):
        yield from pause_after(place, GIVEN_AT_ONCE)
        topic = of_topic(context.table, name)._replace(topic_id=given[name])
        operations.append(SetData(znodes.topic_path(name), znodes.encode_topic(topic)))
    outcomes = yield from write_nodes(operations)
    for name, outcome in zip(without, outcomes, strict=True):
        if outcome is OperationResult.DONE:
            topics.set_id(name, given[name])


def replace_unfit(context: ControllerContext, rows: Int32s) -> Steps[None]:
    """Moves replicas of new partitions from unfit to live brokers, in ZooKeeper and then in the table, and logs it.

    Brokers that create topics choose among all brokers in UpdateMetadata, which lists this controller and brokers
    without coordinators. Each topic is repaired in one transaction, before its partitions have states.
    """
    table = context.table
    wrong, moved_from, names = _on_unfit(context, rows), set[int](), list[str]()
    replaced = 0
    for topic_row in np.unique(table.topic_row__p[wrong]).tolist():
        name = table.topics.names[topic_row]
        unfit = context.unfit_for(name)
        fit = {row: _fit_replicas(table, row, unfit) for row in wrong[table.topic_row__p[wrong] == topic_row].tolist()}
        mended = _numbers(row for row, replicas in fit.items() if replicas != table.state(row).replicas)
        replicas = [fit[row] for row in mended.tolist()]
        [node] = yield from read_nodes([znodes.topic_path(name)])
        if node is None or not replicas:
            continue
        try:
            topic = read_topic(name, node.data)
        except TableError as error:
            yield from pass_over(context.passed_over, [error])
            continue
        for index, each in zip(table.partition_index__p[mended].tolist(), replicas, strict=True):
            topic.partitions[index] = ReplicaAssignment(each)
        [outcome] = yield from write_nodes(
            [SetData(znodes.topic_path(name), znodes.encode_topic(topic), node.version)], atomic=True
        )
        if outcome is OperationResult.DONE:
            moved_from |= _holders(table, mended) & unfit
            table.set_replicas(mended, _lists(replicas))
            replaced += len(mended)
            names.append(name)
    if replaced:
        logger.warning(
            "%s new partitions of %s were assigned to brokers %s, which cannot have replicas of them; live brokers "
            "replace these",
            *(replaced, _listed(names), _ids(moved_from)),
        )


def warn_of_unfit(context: ControllerContext) -> None:
    """Logs a warning about partitions that have a state and replicas on unfit brokers, which stay there."""
    table = context.table
    wrong = _on_unfit(context, np.flatnonzero(table.topic_row__p != NO_TOPIC).astype(np.int32), new=False)
    if len(wrong):
        names = [table.topics.names[row] for row in np.unique(table.topic_row__p[wrong]).tolist()]
        unfit = {broker for name in names for broker in context.unfit_for(name)}
        logger.warning(
            "%s partitions of %s have replicas on brokers %s, which cannot serve them: the controller has no replicas, "
            "and kcore's brokers coordinate no groups and transactions; move them by kafka-reassign-partitions",
            *(len(wrong), _listed(names), _ids(unfit & _holders(table, wrong))),
        )


def _on_unfit(context: ControllerContext, rows: Int32s, *, new: bool = True) -> Int32s:
    """The partitions with a replica on an unfit broker. `new`: only partitions without a state; False: only others."""
    table = context.table
    if not any(each in table.brokers for each in context.unfit_for("") | context.not_coordinating):
        return rows[:0]
    rows = rows[(table.leader_epoch__p[rows] < 0) == new]
    internal = [table.topics.row(name) for name in INTERNAL_TOPICS if name in table.topics]
    is_internal = np.isin(table.topic_row__p[rows], internal)
    on_controller = _have_any(table, rows, context.unfit_for(""))
    return rows[on_controller | (is_internal & _have_any(table, rows, context.not_coordinating))]


def _have_any(table: PartitionTable, rows: Int32s, broker_ids: Iterable[int]) -> Bools:
    """A mask of the partitions that have a replica on any of these brokers."""
    broker_rows = [table.brokers.row(each) for each in broker_ids if each in table.brokers]
    return np.asarray(np.isin(table.replicas__ps[rows], broker_rows).any(axis=1), np.bool_)


def _holders(table: PartitionTable, rows: Int32s) -> set[int]:
    """The brokers that have replicas of any of the partitions."""
    broker_rows = np.unique(table.replicas__ps[rows])
    return {*table.brokers.ids[broker_rows[broker_rows >= 0]].tolist()}


def _listed(names: list[str]) -> str:
    """The number of topics, and the first MOST_NAMES names, as text."""
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return f"{len(names)} topics ({', '.join(names[:MOST_NAMES])}{more})"


def _ids(broker_ids: Iterable[int]) -> str:
    return ", ".join(map(str, sorted(broker_ids)))


def _fit_replicas(table: PartitionTable, row: int, unfit: Collection[int]) -> tuple[int, ...]:
    """A partition's replicas after live brokers, round-robin by id, replace unfit ones; fewer if too few are live."""
    replicas = table.state(row).replicas
    live = sorted({*table.brokers.ids[table.brokers.live].tolist()} - {*unfit})
    found: list[int] = []
    for each in replicas:
        start = int(table.partition_index__p[row]) + sum(other < each for other in live)
        others = (live[(start + k) % len(live)] for k in range(len(live)))
        spare = next((other for other in others if other not in (*replicas, *found)), None)
        place = spare if each in unfit else each
        found += [] if place is None else [place]
    return tuple(found) or replicas
