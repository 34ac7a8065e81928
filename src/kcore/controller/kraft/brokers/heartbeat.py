"""BrokerHeartbeat: extends a broker's session, and fences, unfences or shuts down the broker as the broker wants.

Source: ControllerApis.handleBrokerHeartBeatRequest, ReplicationControlManager.processBrokerHeartbeat and
BrokerHeartbeatManager.calculateNextBrokerState.
"""

from enum import Enum
from typing import Final

from kcore.controller.kraft.brokers import records as broker_records
from kcore.controller.kraft.brokers.heartbeats import BrokerHeartbeat
from kcore.controller.kraft.decision import Decision, Records, Rest, Steps, Versioned
from kcore.controller.kraft.departures import FENCES_ONE_BY_ONE
from kcore.controller.kraft.kraft_context import ControllerContext, RequestInfo
from kcore.metadata.acl_codes import CLUSTER_ACTION
from kcore.metadata.table.partition_values import PartitionCreations
from kcore.protocol_errors import Errors
from kcore.schema.broker_lifecycle import BrokerHeartbeatRequest, BrokerHeartbeatResponse


class BrokerControlState(Enum):
    """The state of a broker in the controller (Kafka's BrokerControlState)."""

    FENCED = 0
    UNFENCED = 1
    CONTROLLED_SHUTDOWN = 2  # Its leaders move to other brokers; the broker is not fenced yet.
    SHUTDOWN_NOW = 3  # The broker is fenced and may stop.


FENCED, UNFENCED = BrokerControlState.FENCED, BrokerControlState.UNFENCED
CONTROLLED_SHUTDOWN, SHUTDOWN_NOW = BrokerControlState.CONTROLLED_SHUTDOWN, BrokerControlState.SHUTDOWN_NOW
SHUTTING_DOWN: Final = "enterControlledShutdown"  # Kafka's name for the elections of a controlled shutdown.
_IS_FENCED: Final = (FENCED, SHUTDOWN_NOW)


def on_broker_heartbeat(context: ControllerContext, request: BrokerHeartbeatRequest, info: RequestInfo) -> Decision:
    """Extend the broker's session, and grant the state that the broker wants as soon as possible.

    A heartbeat that changes nothing reads only the broker's own state, so its cost does not depend on the cluster's
    size.
    """
    if not context.is_authorized(info, CLUSTER_ACTION):
        return _refused(Errors.CLUSTER_AUTHORIZATION_FAILED)
    context.call_controller()
    broker_id = request.broker_id
    if (row := context.image.brokers.registered_row(broker_id, request.broker_epoch)) is None:
        if FENCES_ONE_BY_ONE in context.config.kafka_way and not context.heartbeats.only_unfenced:
            context.heartbeats.touch_unregistered(broker_id, request.broker_epoch, info.now_ms)
        return _refused(Errors.STALE_BROKER_EPOCH)
    state = context.heartbeats.of(broker_id, request.broker_epoch, context.image)
    current = _current_state(context, row, state)
    after = _next_state(context, request, row, state, current)
    context.heartbeats.touch(broker_id, info.now_ms, fenced=after in _IS_FENCED)
    state.metadata_offset = request.current_metadata_offset
    records = [] if after is current else _records_of_move(context, request, after)
    if request.offline_log_dirs and context.version.directories_supported:
        records += broker_records.directories_offline(context, broker_id, request.offline_log_dirs)
    if request.cordoned_log_dirs is not None and context.version.cordoned_directories_supported:
        records += broker_records.directories_cordoned(context, broker_id, request.cordoned_log_dirs)
    rest = None
    if after is CONTROLLED_SHUTDOWN and current is not CONTROLLED_SHUTDOWN:
        state.controlled_shutdown_offset = context.next_offset + _number_of(records) - 1
        if broker_records.is_shut_down_in_parts(context, broker_id):
            rest = Rest(SHUTTING_DOWN, lambda: _rest_of_shutdown(context, broker_id, request.broker_epoch))
    state.may_stop = after is SHUTDOWN_NOW
    response = BrokerHeartbeatResponse(
        is_caught_up=request.current_metadata_offset >= state.registration_offset,
        is_fenced=after in _IS_FENCED,
        should_shut_down=after is SHUTDOWN_NOW,
    )
    # An unfencing is atomic: without its elections, partitions that could have a leader would stay leaderless.
    return Decision(response, records, is_atomic=after is UNFENCED, rest=rest)


def _rest_of_shutdown(context: ControllerContext, broker_id: int, broker_epoch: int) -> Steps:
    """Move the leaders that the first records of a controlled shutdown left out.

    The heartbeat has been answered already, because the broker may not stop yet; Kafka answers after all partitions.
    If another node becomes the leader before, the broker's next heartbeat begins the shutdown again.
    """
    row = context.image.brokers.registered_row(broker_id, broker_epoch)
    if row is None or context.image.brokers.fenced__b[row]:
        return Decision()
    records = yield from broker_records.rest_of_shutdown(context, broker_id)
    if records:
        state = context.heartbeats.of(broker_id, broker_epoch, context.image)
        state.controlled_shutdown_offset = context.next_offset + _number_of(records) - 1
    return Decision(records=records, is_atomic=False)


def changes_nothing(context: ControllerContext, request: BrokerHeartbeatRequest) -> bool:
    """True if the heartbeat only extends the session of an unfenced broker that has caught up.

    Then later heartbeats with a higher offset also change nothing, until the broker's registration changes.
    """
    broker_id, heartbeats = request.broker_id, context.heartbeats
    if request.want_fence or request.want_shut_down or context.is_standby:
        return False
    row = context.image.brokers.registered_row(broker_id, request.broker_epoch)
    state = heartbeats.brokers.get(broker_id)
    if row is None or state is None or state.epoch != request.broker_epoch or state.is_shutting_down:
        return False
    is_caught_up = request.current_metadata_offset >= state.registration_offset
    if not is_caught_up or _current_state(context, row, state) is not UNFENCED:
        return False
    if broker_records.listed_directories(context, broker_id, request.offline_log_dirs):
        return False
    if request.cordoned_log_dirs is None or not context.version.cordoned_directories_supported:
        return True
    return not broker_records.directories_cordoned(context, broker_id, request.cordoned_log_dirs)


def _refused(error: Errors) -> Decision:
    return Decision(BrokerHeartbeatResponse(error_code=error))


def _current_state(context: ControllerContext, row: int, state: BrokerHeartbeat) -> BrokerControlState:
    """The broker's present state.

    A controlled shutdown counts only when its record is in the log, so that a refused append has no effect.
    """
    brokers = context.image.brokers
    if brokers.fenced__b[row]:
        return FENCED
    if not state.is_shutting_down:
        return UNFENCED
    is_known = brokers.in_controlled_shutdown__b[row] or not context.version.controlled_shutdown_in_log
    return CONTROLLED_SHUTDOWN if is_known else UNFENCED


def _next_state(
    context: ControllerContext,
    request: BrokerHeartbeatRequest,
    row: int,
    state: BrokerHeartbeat,
    current: BrokerControlState,
) -> BrokerControlState:
    """The broker's state after the heartbeat (BrokerHeartbeatManager.calculateNextBrokerState)."""
    if current is CONTROLLED_SHUTDOWN:
        if _leads_any(context, row):
            return CONTROLLED_SHUTDOWN
        offset = state.controlled_shutdown_offset
        return CONTROLLED_SHUTDOWN if context.heartbeats.is_awaited(offset, state, context.image) else SHUTDOWN_NOW
    if request.want_shut_down:
        is_graceful = current is UNFENCED and not request.want_fence
        return CONTROLLED_SHUTDOWN if is_graceful and _leads_any(context, row) else SHUTDOWN_NOW
    if request.want_fence:
        return FENCED
    is_caught_up = request.current_metadata_offset >= state.registration_offset
    return UNFENCED if current is UNFENCED or is_caught_up else FENCED


def _leads_any(context: ControllerContext, row: int) -> bool:
    """True if the broker leads a partition (BrokersToIsrs.hasLeaderships)."""
    table = context.image.table
    return bool((table.leader__p[table.index.rows(row)] == row).any())


def _records_of_move(
    context: ControllerContext, request: BrokerHeartbeatRequest, after: BrokerControlState
) -> list[Records]:
    broker_id = request.broker_id
    if after in _IS_FENCED:
        return broker_records.fenced(context, [broker_id])
    if after is UNFENCED:
        return broker_records.unfenced(context, broker_id, request.offline_log_dirs)
    return broker_records.controlled_shutdown(context, broker_id)


def _number_of(records: list[Records]) -> int:
    """The number of log records that these decisions make."""
    number = 0
    for each in records:
        assert not isinstance(each, PartitionCreations)
        number += 1 if isinstance(each, Versioned) else len(each)
    return number
