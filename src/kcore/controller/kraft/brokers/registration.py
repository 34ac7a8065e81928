"""BrokerRegistration: registers a broker that starts, or refuses it with an error.

Source: ClusterControlManager.registerBroker and ReplicationControlManager.handleBrokerShutdown.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from kcore.constants import JAVA_BLANKS, KRAFT_VERSION, MAX_BROKERS, NO_BROKER_ROW
from kcore.controller.kraft.brokers import records as broker_records
from kcore.controller.kraft.decision import Decision, Records, Versioned
from kcore.controller.kraft.departures import CLEAN_BOUNCE_WAITS, LISTENERS, UNBOUNDED_DIRECTORIES
from kcore.controller.kraft.kafka_way.faults import fail_as_kafka
from kcore.controller.kraft.kafka_way.stale_eligible import changes_of_stale
from kcore.controller.kraft.kraft_context import ControllerContext, RequestInfo
from kcore.metadata.acl_codes import CLUSTER_ACTION
from kcore.metadata.metadata_version import FEATURE_NAME, MINIMUM_KRAFT_VERSION
from kcore.metadata.table.broker_table import SECURITY_PROTOCOLS
from kcore.metadata.table.directory_table import is_reserved_directory
from kcore.protocol_errors import Errors
from kcore.replication import kraft_events
from kcore.schema.broker_lifecycle import BrokerRegistrationRequest, BrokerRegistrationResponse, Listener
from kcore.schema.metadata_records_brokers import BrokerEndpoint, BrokerFeature, RegisterBrokerRecord


def merged(listeners: Iterable[Listener]) -> list[Listener]:
    """One listener per name: the last listener of the name, at the position of the first one."""
    return [*{each.name: each for each in listeners}.values()]


def are_valid(listeners: Iterable[Listener]) -> bool:
    """True if each listener has a known security protocol, and those that `merged` keeps have a host and a port."""
    given = list(listeners)
    known = {*SECURITY_PROTOCOLS.values()}
    return all(each.security_protocol in known for each in given) and all(
        each.port and each.host.strip(JAVA_BLANKS) for each in merged(given)
    )


MOST_DIRECTORIES: Final = 1_000  # Log directories of one broker.
_CLEAN_SHUTDOWN_FROM: Final = 3  # The first version of the request with previousBrokerEpoch.


def on_broker_registration(
    context: ControllerContext, request: BrokerRegistrationRequest, info: RequestInfo
) -> Decision:
    """Register a new incarnation, which is fenced at first, or change the registration of the present incarnation."""
    if not context.is_authorized(info, CLUSTER_ACTION):
        return _refused(Errors.CLUSTER_AUTHORIZATION_FAILED)
    context.call_controller()
    if (error := _reason_refused(context, request, info)) is not None:
        return _refused(error)
    brokers = context.image.brokers
    row = brokers.registered_row(request.broker_id)
    if row is not None and brokers.incarnation_ids[row] == request.incarnation_id:
        record = _record(context, request, int(brokers.epochs[row]))
        record.fenced = bool(brokers.fenced__b[row])
        record.in_controlled_shutdown = bool(brokers.in_controlled_shutdown__b[row])
        records: list[Records] = []
    else:
        record = _record(context, request, context.next_offset)
        records = list(_changes_for_new_incarnation(context, request, info, row))
    records.append(Versioned(record, context.version.register_broker_record_version))
    # The registration is last: if only the changes before it are written, the broker registers again and the changes
    # are decided again. Older releases write all records at once.
    response = BrokerRegistrationResponse(broker_epoch=record.broker_epoch)
    return Decision(response, records, is_atomic=context.config.node.rules.registration_is_atomic)


def _refused(error: Errors) -> Decision:
    return Decision(BrokerRegistrationResponse(error_code=error))


def _changes_for_new_incarnation(
    context: ControllerContext, request: BrokerRegistrationRequest, info: RequestInfo, row: int | None
) -> Iterator[Records]:
    """Changes that remove the last incarnation from ISRs, and after an unclean shutdown also from ELRs."""
    level = context.level
    if row is not None and level.knows_no_clean_shutdown and not level.elr_supported:
        yield from _changes_of_3_9(context, request.broker_id, row)
        return
    is_clean = (
        info.version >= _CLEAN_SHUTDOWN_FROM
        and row is not None
        and bool(context.image.brokers.epochs[row] == request.previous_broker_epoch)
    )
    settings = context.kraft_settings()
    changes = kraft_events.broker_registered(context.image.table, settings, request.broker_id, clean_shutdown=is_clean)
    if len(changes):
        yield changes
    if settings.elr_enabled and not is_clean:
        yield from changes_of_stale(context, request.broker_id, crashed=True)


def _changes_of_3_9(context: ControllerContext, broker_id: int, row: int) -> Iterator[Records]:
    """The changes for a new incarnation in 3.9.1 below 4.0-IV0, where Kafka makes none.

    Kafka's event queue runs an overdue fencing before any request, and Kafka fences one broker at a time. So there the
    last incarnation is in no ISR that has a leader. Here the fencing may still be due, for example after a pause of the
    controller. And brokers that were fenced together stay in an ISR, which another of them may lead now. The new
    incarnation may have an empty disk, so it must leave such an ISR.
    """
    table = context.image.table
    if not table.brokers.fenced__b[row]:
        yield from broker_records.fenced(context, [broker_id])
        return
    held = table.index.rows(row)
    led = held[table.leader__p[held] != NO_BROKER_ROW]
    changes = kraft_events.brokers_fenced_among(table, context.kraft_settings(), [row], led)
    if len(changes):
        yield changes


def _record(context: ControllerContext, request: BrokerRegistrationRequest, epoch: int) -> RegisterBrokerRecord:
    features = [
        BrokerFeature(
            name=each.name,
            min_supported_version=each.min_supported_version,
            max_supported_version=each.max_supported_version,
        )
        for each in request.features
    ]
    if all(each.name != FEATURE_NAME for each in features):  # Only 3.9.1 registers a broker without metadata.version.
        features.append(
            BrokerFeature(
                name=FEATURE_NAME,
                min_supported_version=MINIMUM_KRAFT_VERSION,
                max_supported_version=MINIMUM_KRAFT_VERSION,
            )
        )
    return RegisterBrokerRecord(
        broker_id=request.broker_id,
        incarnation_id=request.incarnation_id,
        broker_epoch=epoch,
        end_points=[
            BrokerEndpoint(name=each.name, host=each.host, port=each.port, security_protocol=each.security_protocol)
            for each in merged(request.listeners)
        ],
        features=features,
        rack=request.rack,
        log_dirs=list(request.log_dirs) if context.version.directories_supported else [],
    )


# Reasons for refusals.


def _reason_refused(context: ControllerContext, request: BrokerRegistrationRequest, info: RequestInfo) -> Errors | None:
    """The first error in the order of Kafka's checks."""
    if request.cluster_id != context.config.node.cluster_id:
        return Errors.INCONSISTENT_CLUSTER_ID
    if _is_another_alive(context, request, info.now_ms):
        return Errors.DUPLICATE_BROKER_REGISTRATION
    if request.is_migrating_zk_broker:
        return Errors.BROKER_ID_NOT_REGISTERED
    if context.version.directories_supported and not _are_directories_valid(context, request):
        return Errors.INVALID_REGISTRATION
    if not are_valid(request.listeners):
        fail_as_kafka(context.config, LISTENERS, "unreadable listeners")
        return Errors.INVALID_REGISTRATION
    if not _has_room(context, request.broker_id):
        return Errors.INVALID_REGISTRATION
    return _reason_features_refused(context, request)


def _is_another_alive(context: ControllerContext, request: BrokerRegistrationRequest, now_ms: int) -> bool:
    """True if another incarnation of the broker has a session.

    An incarnation that the controller has allowed to stop does not count. It counts in Kafka's way
    ("clean-bounce-waits"): a broker that restarts cleanly waits until the session of its last incarnation ends.
    """
    brokers = context.image.brokers
    row = brokers.registered_row(request.broker_id)
    if row is None or brokers.incarnation_ids[row] == request.incarnation_id:
        return False
    if not context.heartbeats.has_session(request.broker_id, context.image, now_ms):
        return False
    if CLEAN_BOUNCE_WAITS in context.config.kafka_way or not brokers.fenced__b[row]:
        return True
    may_stop = context.heartbeats.brokers[request.broker_id].may_stop
    return not (may_stop or brokers.in_controlled_shutdown__b[row])


def _are_directories_valid(context: ControllerContext, request: BrokerRegistrationRequest) -> bool:
    """True if a broker lists 1 to MOST_DIRECTORIES distinct directories, not reserved or another broker's (KIP-858)."""
    if len(request.log_dirs) > MOST_DIRECTORIES and UNBOUNDED_DIRECTORIES not in context.config.kafka_way:
        return False
    named, table, brokers = set(request.log_dirs), context.image.directories, context.image.brokers
    if not named or len(named) != len(request.log_dirs) or any(map(is_reserved_directory, named)):
        return False
    rows = (table.row(each) for each in named)
    owners = {int(table.owner__d[row]) for row in rows if row >= 0} - {-1}
    return all(brokers.ids[owner] == request.broker_id for owner in owners)


def _has_room(context: ControllerContext, broker_id: int) -> bool:
    """True if the table of brokers has the id or room for it."""
    brokers = context.image.brokers
    return broker_id in brokers or (broker_id >= 0 and len(brokers) < MAX_BROKERS)


def _reason_features_refused(context: ControllerContext, request: BrokerRegistrationRequest) -> Errors | None:
    """The error if the broker does not support the finalized level of a feature, or does not name the feature."""
    finalized = {**context.image.features, KRAFT_VERSION: context.raft.kraft_version}
    for each in request.features:
        if not each.min_supported_version <= finalized.get(each.name, 0) <= each.max_supported_version:
            return Errors.UNSUPPORTED_VERSION
    named = {each.name for each in request.features}
    if FEATURE_NAME not in named:
        if not context.config.node.rules.levels_may_be_unnamed:
            return Errors.INVALID_REGISTRATION
        if finalized[FEATURE_NAME] != MINIMUM_KRAFT_VERSION:
            return Errors.UNSUPPORTED_VERSION
    is_missing = any(level and name not in named for name, level in finalized.items() if name != FEATURE_NAME)
    return Errors.UNSUPPORTED_VERSION if is_missing else None
