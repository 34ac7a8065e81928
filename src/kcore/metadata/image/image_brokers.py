"""Applies records of brokers and controllers to an image."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from kcore.errors import TableError
from kcore.metadata.image.image_state import ImageState
from kcore.metadata.table.broker_registration import BrokerRegistration, Endpoint
from kcore.schema import metadata_records_brokers as records
from kcore.schema.structure import MetadataRecord
from kcore.types import Uuid

_FENCING: Final = {1: True, -1: False}  # BrokerRegistrationFencingChange; 0 keeps the state.
_SHUTDOWN: Final = {1: True}  # BrokerRegistrationInControlledShutdownChange; 0 keeps the state.


def _register_broker(image: ImageState, record: records.RegisterBrokerRecord) -> None:
    features = {each.name: (each.min_supported_version, each.max_supported_version) for each in record.features}
    listeners = (Endpoint(each.port, each.host, each.name, each.security_protocol) for each in record.end_points)
    image.brokers.put(
        BrokerRegistration(
            id=record.broker_id,
            epoch=record.broker_epoch,
            incarnation_id=record.incarnation_id,
            listeners=tuple(listeners),
            supported_features=features,
            rack=record.rack,
            fenced=record.fenced,
            in_controlled_shutdown=record.in_controlled_shutdown,
            is_migrating_zk_broker=record.is_migrating_zk_broker,
            directories=_sorted(record.log_dirs),
            cordoned_directories=None if record.cordoned_log_dirs is None else tuple(record.cordoned_log_dirs),
        )
    )
    image.set_registered_at(record.broker_id, image.end_offset - 1)


def _sorted(directories: list[Uuid]) -> tuple[Uuid, ...]:
    """In the order of Kafka's BrokerRegistration: by Uuid.compareTo, which compares two signed longs."""
    return tuple(sorted(directories, key=_longs))


def _longs(uuid: Uuid) -> tuple[int, int]:
    return int.from_bytes(uuid[:8], signed=True), int.from_bytes(uuid[8:], signed=True)


def _unregister_broker(image: ImageState, record: records.UnregisterBrokerRecord) -> None:
    image.brokers.unregister(_registered(image, record.broker_id, record.broker_epoch))
    image.set_registered_at(record.broker_id, None)


def _fence_broker(image: ImageState, record: records.FenceBrokerRecord) -> None:
    image.brokers.set_fenced(_registered(image, record.id, record.epoch), True)


def _unfence_broker(image: ImageState, record: records.UnfenceBrokerRecord) -> None:
    image.brokers.set_fenced(_registered(image, record.id, record.epoch), False)


def _change_registration(image: ImageState, record: records.BrokerRegistrationChangeRecord) -> None:
    broker = image.brokers[_registered(image, record.broker_id, record.broker_epoch)]
    if record.fenced not in (0, *_FENCING) or record.in_controlled_shutdown not in (0, *_SHUTDOWN):
        change = f"fenced {record.fenced}, in_controlled_shutdown {record.in_controlled_shutdown}"
        raise TableError(f"broker {broker.id}: invalid change of its registration: {change}")
    cordoned = record.cordoned_log_dirs
    after = replace(
        broker,
        fenced=_FENCING.get(record.fenced, broker.fenced),
        in_controlled_shutdown=_SHUTDOWN.get(record.in_controlled_shutdown, broker.in_controlled_shutdown),
        directories=_sorted(record.log_dirs) or broker.directories,
        cordoned_directories=broker.cordoned_directories if cordoned is None else tuple(cordoned),
    )
    if after != broker:
        image.brokers.put(after)


def _registered(image: ImageState, broker_id: int, epoch: int) -> int:
    """The broker's id; TableError unless it is registered under that epoch."""
    brokers = image.brokers
    row = brokers.row(broker_id) if broker_id in brokers else -1
    if row < 0 or not brokers.registered__b[row] or brokers.epochs[row] != epoch:
        unknown = row < 0 or not brokers.registered__b[row]
        known = "is not registered" if unknown else f"is registered under epoch {brokers.epochs[row]}, not {epoch}"
        raise TableError(f"broker {broker_id} {known}")
    return broker_id


def _register_controller(image: ImageState, record: records.RegisterControllerRecord) -> None:
    image.set_key("controllers", record.controller_id, record)


def _unregister_controller(image: ImageState, record: records.UnregisterControllerRecord) -> None:
    if record.controller_id not in image.controllers:
        raise TableError(f"controller {record.controller_id} is not registered")
    image.set_key("controllers", record.controller_id, None)


HANDLERS: Final[dict[type[MetadataRecord], Callable[[ImageState, Any], None]]] = {
    records.RegisterBrokerRecord: _register_broker,
    records.UnregisterBrokerRecord: _unregister_broker,
    records.FenceBrokerRecord: _fence_broker,
    records.UnfenceBrokerRecord: _unfence_broker,
    records.BrokerRegistrationChangeRecord: _change_registration,
    records.RegisterControllerRecord: _register_controller,
    records.UnregisterControllerRecord: _unregister_controller,
}
