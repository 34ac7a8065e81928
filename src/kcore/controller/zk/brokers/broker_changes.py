"""Handles brokers that start, fail, bounce or shut down.

Source: KafkaController of 3.9.1: processBrokerChange, onBrokerStartup, onBrokerFailure, doControlledShutdown.
"""

from collections.abc import Sequence

import numpy as np

from kcore.controller.rules.features import supports
from kcore.controller.zk import events
from kcore.controller.zk.effects import Steps
from kcore.controller.zk.events import BrokerFailed, BrokerStarted, ControlledShutdown, RequestEvent
from kcore.controller.zk.leaders import unclean
from kcore.controller.zk.log_lines import NEW_PARTITIONS, BrokersChanged, counted, named_brokers
from kcore.controller.zk.requests.states import distinct
from kcore.controller.zk.state_changes import carry_out
from kcore.controller.zk.zk_context import ControllerContext
from kcore.errors import TableError
from kcore.metadata.zookeeper import znodes
from kcore.metadata.zookeeper.znode_brokers import decode_broker, read_broker
from kcore.node.zk.notices import TextNotice
from kcore.node.zk.znode_steps import log_notice, pass_over, read_children, read_node, read_nodes
from kcore.protocol_errors import Errors
from kcore.schema import ControlledShutdownRequest
from kcore.schema.structure import Message
from kcore.types import Int32s


def on_broker_change(context: ControllerContext, event: events.BrokerChange) -> Steps[None]:
    """Finds new, bounced and dead brokers by their epochs, and handles them in this order (KIP-380)."""
    registered = yield from _registered(context)
    brokers = context.table.brokers
    live = dict(zip(brokers.ids[brokers.live].tolist(), brokers.epochs[brokers.live].tolist(), strict=True))
    new = _fit(context, [each for broker_id, each in registered.items() if broker_id not in live])
    bounced = [each for broker_id, each in registered.items() if each.broker_epoch > live.get(broker_id, 2**63)]
    dead = sorted(live.keys() - registered.keys())
    yield from _log_changes(live, new, bounced, dead)
    if new:
        yield from on_brokers_started(context, new)
    if bounced:  # First the old incarnation fails, then the new one starts.
        yield from on_brokers_failed(context, [each.broker_id for each in bounced])
        if again := _fit(context, bounced):
            yield from on_brokers_started(context, again)
    if dead:
        yield from on_brokers_failed(context, dead)


def _log_changes(
    live: dict[int, int], new: list[BrokerStarted], bounced: list[BrokerStarted], dead: list[int]
) -> Steps[None]:
    """Logs the started, bounced and failed brokers in one line."""
    if new or bounced or dead:
        came, again = ([(each.broker_id, each.broker_epoch) for each in which] for which in (new, bounced))
        left = [(broker_id, live[broker_id]) for broker_id in dead]
        yield from log_notice(BrokersChanged(came, again, left, sorted({*live, *dict(came)} - {*dead})))


def _fit(context: ControllerContext, started: list[BrokerStarted]) -> list[BrokerStarted]:
    """The brokers that support all finalized features; others are ignored (partitionOnFeatureCompatibility)."""
    levels = context.finalized.node.features
    return [each for each in started if supports(each.features, levels)]


def _registered(context: ControllerContext) -> Steps[dict[int, BrokerStarted]]:
    """Reads the registered brokers, by id, and watches their znodes."""
    names = yield from read_children(znodes.BROKER_IDS, watch=True)
    nodes = yield from read_nodes([f"{znodes.BROKER_IDS}/{name}" for name in names], watch=True)
    started: dict[int, BrokerStarted] = {}
    for name, node in zip(names, nodes, strict=True):
        if node is None:
            continue
        try:
            broker_id, broker = read_broker(name, node.data)
        except TableError as error:
            yield from pass_over(context.passed_over, [error])
            started |= _as_known(context, name, node.czxid)
            continue
        details = tuple(broker.endpoints), broker.rack, broker.features, broker.coordinates
        started[broker_id] = BrokerStarted(broker_id, node.czxid, *details)
    return dict(sorted(started.items()))


def _as_known(context: ControllerContext, name: str, epoch: int) -> dict[int, BrokerStarted]:
    """The last registration of a live broker whose znode was overwritten with unreadable data; otherwise empty."""
    brokers = context.table.brokers
    broker_id = int(name) if name.isdecimal() else -1
    if broker_id not in brokers or not brokers.live[row := brokers.row(broker_id)] or brokers.epochs[row] != epoch:
        return {}
    features, coordinates = context.features_of.get(broker_id, {}), broker_id not in context.not_coordinating
    details = brokers.endpoints[row], brokers.racks[row], features, coordinates
    return {broker_id: BrokerStarted(broker_id, epoch, *details)}


def on_brokers_started(context: ControllerContext, started: list[BrokerStarted]) -> Steps[None]:
    """Elects leaders where only started brokers can lead; sends these all their partitions, and others the changes."""
    decisions = context.decisions
    for event in started:
        context.offline_dirs.pop(event.broker_id, None)
        context.features_of[event.broker_id] = event.features
        (context.not_coordinating.discard if event.coordinates else context.not_coordinating.add)(event.broker_id)
    known = [event.broker_id for event in started if event.broker_id in context.table.brokers]
    held = _held(context, known)
    yield from unclean.learn(context, held, starting=known)
    why = f"{named_brokers(event.broker_id for event in started)} started"
    decision = yield from carry_out(context, lambda: decisions.on_brokers_started(started), why)
    yield from context.send_decision(decision)
    yield from create_states(context, held)
    yield from context.after_brokers_started([event.broker_id for event in started])


def create_states(context: ControllerContext, rows: Int32s) -> Steps[None]:
    """Writes and sends the first states of new partitions with online replicas (onNewPartitionCreation)."""
    created = yield from carry_out(context, lambda: context.decisions.on_new_partitions(rows), NEW_PARTITIONS)
    if len(created.changes):
        batch, changes = context.batch(), created.changes
        members = context.table.brokers.rows(changes.isr)  # The online replicas, without brokers that shut down.
        batch.add_leader_and_isr(members, np.repeat(changes.rows, np.diff(changes.isr_offsets)), True)
        yield from context.send(batch)


def on_brokers_failed(context: ControllerContext, broker_ids: list[int]) -> Steps[None]:
    """Elects other leaders, removes the brokers from the ISRs, and sends the changes."""
    for broker_id in broker_ids:
        context.offline_dirs.pop(broker_id, None)
    held = _held(context, broker_ids)
    yield from unclean.learn(context, held, broker_ids)
    failed = BrokerFailed(broker_ids)
    why = f"{named_brokers(broker_ids)} failed"
    decision = yield from carry_out(context, lambda: context.decisions.on_broker_failed(failed), why)
    yield from context.send_decision(decision)
    for broker_id in broker_ids:
        yield from context.after_replicas_offline(broker_id, _held(context, [broker_id]))


def _held(context: ControllerContext, broker_ids: Sequence[int]) -> Int32s:
    """The partitions that have a replica on any of these brokers, ascending."""
    rows = [context.table.index.rows(row) for row in context.table.brokers.rows(broker_ids).tolist()]
    return distinct(np.concatenate(rows)) if rows else np.empty(0, np.int32)


def on_broker_modifications(context: ControllerContext, event: events.BrokerModifications) -> Steps[None]:
    """Sends all brokers the new listeners of a running broker.

    If the broker is not live, its registration was unreadable and has been repaired: the broker starts now.
    """
    node = yield from read_node(znodes.broker_path(event.broker_id), watch=True)
    brokers = context.table.brokers
    if node is None:
        return
    if event.broker_id not in brokers or not brokers.live[brokers.row(event.broker_id)]:
        yield from on_broker_change(context, events.BrokerChange())
        return
    try:
        row, endpoints = brokers.row(event.broker_id), tuple(decode_broker(event.broker_id, node.data).endpoints)
    except TableError as error:
        yield from pass_over(context.passed_over, [error])
        return
    if endpoints != brokers.endpoints[row]:
        brokers.set_endpoints(event.broker_id, endpoints)
        yield from log_notice(TextNotice(f"broker {event.broker_id} has other listeners"))
        batch = context.batch()
        batch.add_update_metadata(np.flatnonzero(brokers.live))
        yield from context.send(batch)


def on_controlled_shutdown(
    context: ControllerContext, event: RequestEvent[ControlledShutdownRequest]
) -> Steps[Message]:
    """Moves the broker's leaders, stops its follower replicas, and responds with the partitions that it still leads."""
    decisions = context.decisions
    shutdown = ControlledShutdown(event.request.broker_id, event.request.broker_epoch)
    why = f"controlled shutdown of broker {shutdown.broker_id}"
    decision = yield from carry_out(context, lambda: decisions.on_controlled_shutdown(shutdown), why)
    yield from context.send_decision(decision)
    response = decisions.shutdown_response(shutdown, decision)
    if response.error_code:
        text = f"{why} (epoch {shutdown.broker_epoch}) is refused: {Errors(response.error_code).name}"
    else:
        text = f"{why}: it still leads {counted(len(response.remaining_partitions), 'partition')}"
    yield from log_notice(TextNotice(text, request="ControlledShutdown"))
    return response
