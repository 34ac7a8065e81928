"""Moves partitions to other brokers (KIP-455), in the steps of KafkaController.onPartitionReassignment of 3.9.1.

ORS are the original replicas, TRS the target replicas, RS both together. Phase B follows once all of TRS is in the ISR:
A1. RS is written to the topic's znode, with adding and removing replicas; replicas that only a replaced move had stop.
A2. The leader epoch is raised and LeaderAndIsr is sent to RS, which starts the adding replicas.
B1. A leader in TRS is elected if the present leader is not in TRS; the leader epoch is raised in any case.
B2. The removing replicas leave the ISR, are stopped and deleted.
B3. TRS is written to the topic's znode, the move is deleted from `/admin/reassign_partitions`, and UpdateMetadata sent.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final, TypeAlias

import numpy as np

from kcore.constants import NO_LEADER
from kcore.controller.rules.replica_assignments import (
    assignments_of,
    is_being_reassigned,
    isrs_of,
    reassign_to,
    target_replicas,
    without,
)
from kcore.controller.zk.decision import Decision
from kcore.controller.zk.effects import HandleLater, Steps
from kcore.controller.zk.events import ReassignmentStep, ZkPartitionReassignment
from kcore.controller.zk.log_lines import Reassignments
from kcore.controller.zk.requests.states import distinct
from kcore.controller.zk.state_changes import carry_out
from kcore.controller.zk.topics import assignments, deletion, deletion_steps
from kcore.controller.zk.zk_context import ControllerContext
from kcore.controller.zk.znode_reading import are_replicas, read_states
from kcore.errors import TableError
from kcore.metadata.table.changes import UnwrittenChanges
from kcore.metadata.table.partition_state import ReplicaAssignment
from kcore.metadata.table.partition_table import PartitionTable
from kcore.metadata.zookeeper import znodes
from kcore.metadata.zookeeper.znode_operations import Delete, OperationResult, SetData
from kcore.metadata.zookeeper.znodes import TopicPartition
from kcore.node.zk.znode_steps import log_notice, read_node, write_nodes
from kcore.replication.elect_one import LeaderAndIsr, elect_one, remove_from_isr
from kcore.types import Int32s


def states_of(table: PartitionTable, rows: Iterable[int]) -> Iterator[tuple[int, LeaderAndIsr]]:
    """The rows of these partitions with their present states."""
    wanted = np.fromiter(rows, np.int32)
    ids = [*table.brokers.ids.tolist(), NO_LEADER]  # Row -1 indexes the last item: no broker.
    columns = table.leader__p, table.leader_epoch__p, table.partition_epoch__p, table.leader_recovery_state__p
    isrs = table.isr__pi[wanted].tolist()
    for row, isr, leader, *epochs in zip(wanted.tolist(), isrs, *(each[wanted].tolist() for each in columns),
                                         strict=True):  # fmt: skip
        yield row, LeaderAndIsr(ids[leader], tuple([ids[each] for each in isr if each >= 0]), *epochs)


def decided(
    table: PartitionTable, rows: Iterable[int], decide: Callable[[int, LeaderAndIsr], LeaderAndIsr | None]
) -> Decision:
    """A decision with the new states from `decide`, by ascending row; a partition with None does not change."""
    found = [(row, decide(row, state)) for row, state in states_of(table, rows)]
    return Decision(changes_of([(row, state) for row, state in found if state is not None]))


def changes_of(states: Sequence[tuple[int, LeaderAndIsr]]) -> UnwrittenChanges:
    """New states as columns; `states` is by ascending row."""
    return UnwrittenChanges(
        rows=np.array([row for row, _ in states], np.int32),
        leaders=np.array([state.leader for _, state in states], np.int32),
        isr_offsets=np.cumsum([0, *(len(state.isr) for _, state in states)], dtype=np.int32),
        isr=np.array([member for _, state in states for member in state.isr], np.int32),
        leader_epochs=np.array([state.leader_epoch for _, state in states], np.int32),
        partition_epochs=np.array([state.partition_epoch for _, state in states], np.int32),
        recovery=np.array([state.leader_recovery_state for _, state in states], np.int8),
    )


def online_brokers(
    table: PartitionTable, offline_dirs: Mapping[int, Collection[int]]
) -> Callable[[int], Collection[int]]:
    """A function from partition row to the brokers where a replica of it is online (isReplicaOnline)."""
    brokers = table.brokers
    up = {*brokers.ids[brokers.live & ~brokers.shutting_down].tolist()}
    failed = [(broker, rows) for broker, rows in offline_dirs.items() if rows and broker in up]
    return lambda row: up - {broker for broker, rows in failed if row in rows} if failed else up


Moves: TypeAlias = Mapping[int, ReplicaAssignment]  # By partition row, ascending.
Removed: TypeAlias = Mapping[int, tuple[int, ...]]  # Broker ids by partition row, ascending.
REASSIGNMENT: Final = "reassignment"  # The reason of changes, in the log.
MOST_FINISHED: Final = 5_000  # Reassignments that one event completes.


def begin(context: ControllerContext, moves: Moves) -> Steps[set[int]]:
    """Phase A, and B where the target is reached; returns the rows whose topic has no znode."""
    table = context.table
    yield from deletion_steps.make_ineligible(context, _topics(table, moves), deletion.BEING_REASSIGNED)
    before = assignments_of(table, moves)
    written = yield from _write_assignments(context, {row: each for row, each in moves.items() if each != before[row]})
    yield from _log_moves(table, "begun", {row: target_replicas(each) for row, each in written.items()})
    overruled = {row: without(before[row].replicas, each.replicas) for row, each in written.items()}
    _assign(table, written)
    yield from _stop_removed(context, {row: brokers for row, brokers in overruled.items() if brokers})
    lost = {row for row, each in moves.items() if each != before[row]} - written.keys()
    yield from _go_on(context, {row: each for row, each in moves.items() if row not in lost}, start=True)
    return lost


def complete(context: ControllerContext, rows: Int32s) -> Steps[None]:
    """The ISRs of these partitions changed: schedules a ReassignmentStep if any is being reassigned.

    3.9.1 completes each in the event of its AlterPartition (maybeCompleteReassignment). When a broker is emptied, all
    brokers send AlterPartition at the same time; one later event completes many reassignments with few requests.
    """
    table = context.table
    due = [row for row in rows.tolist() if row in table.adding or row in table.removing]
    if due and not context.reassigned:
        yield HandleLater(ReassignmentStep())
    context.reassigned.update(dict.fromkeys(due))


def on_reassignment_step(context: ControllerContext, event: ReassignmentStep) -> Steps[None]:
    """Completes reassignments whose target replicas are all in the ISR, at most MOST_FINISHED in an event."""
    table, waiting = context.table, context.reassigned
    rows = sorted(waiting)[:MOST_FINISHED]
    for row in rows:
        del waiting[row]
    moving = _going_on(context, [row for row in rows if row in table.adding or row in table.removing])
    if moving:
        yield from _go_on(context, assignments_of(table, moving), start=False)
    if waiting:
        yield HandleLater(ReassignmentStep())


def _going_on(context: ControllerContext, rows: list[int]) -> list[int]:
    """The partitions whose topic's deletion has not started; a deletion ends the reassignments of its topic."""
    return [row for row in rows if _name(context.table, row)[0] not in context.deletion.started]


def resume(context: ControllerContext) -> Steps[None]:
    """After a failover: begins the reassignments requested in ZooKeeper, and continues all others."""
    handled = yield from take_up(context)
    table = context.table
    others = sorted((table.adding.keys() | table.removing.keys()) - handled)
    moves = assignments_of(table, others)
    under_way = {row: target_replicas(each) for row, each in moves.items()}
    yield from _log_moves(table, "under way since before this controller", under_way)
    yield from begin(context, moves)


def resume_for_brokers(context: ControllerContext, broker_ids: list[int]) -> Steps[None]:
    """Continues the reassignments to brokers that started (KafkaController.onBrokerStartup)."""
    table = context.table
    moving = _going_on(context, sorted(table.adding.keys() | table.removing.keys()))
    under_way = assignments_of(table, moving)
    waiting = {row: each for row, each in under_way.items() if not {*broker_ids}.isdisjoint(target_replicas(each))}
    yield from begin(context, waiting)


def forget_topics(context: ControllerContext, names: list[str]) -> Steps[None]:
    """Removes the partitions of deleted topics from `/admin/reassign_partitions`."""
    gone = {*names}
    yield from strike_out(context, lambda partition, _: partition[0] in gone)


def on_zk_partition_reassignment(context: ControllerContext, event: ZkPartitionReassignment) -> Steps[None]:
    """Begins the reassignments in `/admin/reassign_partitions`, which was created."""
    yield from take_up(context)


def take_up(context: ControllerContext) -> Steps[set[int]]:
    """Begins the reassignments in `/admin/reassign_partitions`, and deletes impossible ones; returns the rows begun."""
    table = context.table
    wanted = yield from _requested_in_zookeeper(watch=True)
    moves, unknown = {}, set()
    rows = {partition: movable_row(context, partition) for partition in wanted}
    there = [row for row in rows.values() if row is not None]
    before, isrs = assignments_of(table, there), isrs_of(table, there)
    for partition, target in wanted.items():
        row = rows[partition]
        is_possible = row is not None and target and are_replicas(target)
        move = reassign_to(before[row], target) if row is not None and is_possible else None
        if row is None or move is None or not are_replicas(move.replicas) or not keeps_data(isrs[row], move):
            unknown.add(partition)
        else:
            assignments.name_brokers(table.brokers, target)
            moves[row] = move
    lost = yield from begin(context, dict(sorted(moves.items())))
    unknown |= {_name(table, row) for row in lost}
    if unknown:
        yield from strike_out(context, lambda partition, _: partition in unknown)
    return moves.keys() - lost


def keeps_data(isr: tuple[int, ...], move: ReplicaAssignment) -> bool:
    """True if an in-sync replica is among the replicas of `move`, or the ISR is empty.

    3.9.1's ZooKeeper mode does not check this: if a move is cancelled or replaced when the ISR has only new replicas,
    it deletes the last in-sync replica. KRaft checks it (PartitionReassignmentRevert).
    """
    return not isr or not {*isr}.isdisjoint(move.replicas)


def movable_row(context: ControllerContext, partition: TopicPartition) -> int | None:
    """The row of a partition; None if it does not exist, or if its topic is queued for deletion."""
    topic, index = partition
    if topic not in context.table.topics or topic in context.topics_to_be_deleted:
        return None
    with suppress(TableError):
        return context.table.row_of(topic, index)
    return None


def strike_out(context: ControllerContext, is_over: Callable[[TopicPartition, tuple[int, ...]], bool]) -> Steps[None]:
    """Deletes reassignments that are over from `/admin/reassign_partitions` (maybeRemoveFromZkReassignment)."""
    requested = yield from _requested_in_zookeeper(watch=False)
    left = {partition: target for partition, target in requested.items() if not is_over(partition, target)}
    if not requested or len(left) == len(requested):
        return
    if left:
        yield from write_nodes([SetData(znodes.REASSIGN_PARTITIONS, znodes.encode_reassign_partitions(left))])
        return
    yield from write_nodes([Delete(znodes.REASSIGN_PARTITIONS)])
    yield from take_up(context)  # Sets the watch again; a new request may exist already.


def _requested_in_zookeeper(*, watch: bool) -> Steps[dict[TopicPartition, tuple[int, ...]]]:
    node = yield from read_node(znodes.REASSIGN_PARTITIONS, watch=watch)
    with suppress(TableError):  # Kafka treats an unreadable znode as empty.
        return {} if node is None else znodes.decode_reassign_partitions(node.data)
    return {}


def _go_on(context: ControllerContext, moves: Moves, *, start: bool) -> Steps[None]:
    """Does B where the ISR in ZooKeeper has all of TRS; elsewhere A2, if `start` is set."""
    if not moves:
        return
    table = context.table
    found = yield from read_states(context, np.array(sorted(moves), np.int32))
    table.apply(found.changes, controller_epoch=found.controller_epochs, check_epochs=False)
    reached: dict[int, ReplicaAssignment] = {}
    others: dict[int, ReplicaAssignment] = {}
    for row, state in states_of(table, found.changes.rows.tolist()):
        # The ISR must have all of TRS: otherwise a replica that never caught up could be the last one (KAFKA-15665).
        is_over = not is_being_reassigned(moves[row]) or {*target_replicas(moves[row])} <= {*state.isr}
        (reached if is_over else others)[row] = moves[row]
    if start:
        yield from _start_new_replicas(context, others)
    yield from _finish(context, reached)


def _start_new_replicas(context: ControllerContext, moves: Moves) -> Steps[None]:
    """A2. Requests are built after the raised epoch is in the table: no broker is sent an older one (KAFKA-9212)."""
    decision = yield from carry_out(context, lambda: decided(context.table, moves, _raised), REASSIGNMENT)
    orders = [
        (broker, row, broker in moves[row].adding_replicas)
        for row in decision.changes.rows.tolist()
        for broker in moves[row].replicas
    ]
    if orders:
        broker_ids, rows, is_new = zip(*orders, strict=True)
        batch = context.batch()
        batch.add_leader_and_isr(context.table.brokers.rows(broker_ids), rows, is_new)
        yield from context.send(batch)


def _raised(row: int, state: LeaderAndIsr) -> LeaderAndIsr:
    return replace(state, leader_epoch=state.leader_epoch + 1)


def _finish(context: ControllerContext, moves: Moves) -> Steps[None]:
    """Phase B, for partitions whose ISR has all of TRS."""
    if not moves:
        return
    table, rows = context.table, np.array(sorted(moves), np.int32)
    targets = {row: ReplicaAssignment(target_replicas(each)) for row, each in sorted(moves.items())}
    _assign(table, targets)

    online_of = online_brokers(table, context.offline_dirs)

    def lead(row: int, state: LeaderAndIsr) -> LeaderAndIsr | None:
        replicas, online = targets[row].replicas, online_of(row)
        if state.leader in replicas and state.leader in online:
            return _raised(row, state)
        return elect_one("reassign", replicas, state, live=online)

    yield from carry_out(context, lambda: decided(table, targets, lead), REASSIGNMENT)
    removed = {row: each.removing_replicas for row, each in sorted(moves.items()) if each.removing_replicas}
    yield from _stop_removed(context, removed, also=rows)
    # After StopReplica: if this controller dies before, the next one finds the reassignment and completes it.
    yield from _write_assignments(context, targets)
    done = {_name(table, row): each.replicas for row, each in targets.items()}
    yield from strike_out(context, lambda partition, target: done.get(partition) == target)
    batch = context.batch()
    batch.add_update_metadata(np.flatnonzero(table.brokers.live), rows)
    yield from context.send(batch)
    yield from _log_moves(table, "ended", {row: each.replicas for row, each in targets.items()})
    yield from deletion.resume_for(context, _topics(table, targets))


def _stop_removed(context: ControllerContext, removed: Removed, also: Int32s | None = None) -> Steps[None]:
    """B2: removes replicas from the ISR, sends the change (and the rows `also`), then stops and deletes them."""

    def shrink(row: int, state: LeaderAndIsr) -> LeaderAndIsr | None:
        after = state
        for broker in removed[row]:
            after = remove_from_isr(broker, after) or after
        return None if after == state else after

    decision = yield from carry_out(context, lambda: decided(context.table, removed, shrink), REASSIGNMENT)
    rows = decision.changes.rows if also is None else distinct(np.concatenate([decision.changes.rows, also]))
    batch = context.batch()
    if len(rows):
        batch.add_to_replicas(rows)
    yield from context.send(batch)
    broker_ids = [broker for gone in removed.values() for broker in gone]
    rows = np.repeat(np.array([*removed], np.int32), [len(gone) for gone in removed.values()])
    broker_rows, leader_epochs = context.table.brokers.rows(broker_ids), context.table.leader_epoch__p[rows]
    for delete in (False, True):
        batch = context.batch()
        batch.add_stop_replica(broker_rows, rows, leader_epochs, delete)
        yield from context.send(batch)


def _assign(table: PartitionTable, moves: Moves) -> None:
    if not moves:
        return
    width = max(len(each.replicas) for each in moves.values())
    table.set_replicas(
        list(moves),
        [[*each.replicas, *[-1] * (width - len(each.replicas))] for each in moves.values()],
        adding={row: each.adding_replicas for row, each in moves.items()},
        removing={row: each.removing_replicas for row, each in moves.items()},
    )


def _write_assignments(context: ControllerContext, moves: Moves) -> Steps[dict[int, ReplicaAssignment]]:
    """Writes the assignments to the topics' znodes; returns the moves whose topic has a znode."""
    table = context.table
    by_topic: dict[str, dict[int, ReplicaAssignment]] = {}
    for row, each in moves.items():
        topic, index = _name(table, row)
        by_topic.setdefault(topic, {})[index] = each
    data: dict[str, bytes] = {}
    for topic, changed in by_topic.items():
        known = assignments.of_topic(table, topic)
        data[topic] = znodes.encode_topic(known._replace(partitions=known.partitions | changed))
    operations = [SetData(znodes.topic_path(topic), each) for topic, each in data.items()]
    outcomes = (yield from write_nodes(operations)) if operations else []
    written = {topic for topic, outcome in zip(by_topic, outcomes, strict=True) if outcome is OperationResult.DONE}
    context.written_topics.update((topic, data[topic]) for topic in written)
    return {row: each for row, each in moves.items() if _name(table, row)[0] in written}


def _log_moves(table: PartitionTable, change: str, replicas: Removed) -> Steps[None]:
    if replicas:
        names = {row: "{}-{}".format(*_name(table, row)) for row in replicas}
        yield from log_notice(Reassignments(change, {names[row]: each for row, each in replicas.items()}))


def _name(table: PartitionTable, row: int) -> TopicPartition:
    return table.topics.names[table.topic_row__p[row]], int(table.partition_index__p[row])


def _topics(table: PartitionTable, rows: Iterable[int]) -> set[str]:
    return {_name(table, row)[0] for row in rows}
