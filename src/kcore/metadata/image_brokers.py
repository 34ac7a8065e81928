"""The brokers that metadata records tell of, and the table of them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kcore.constants import NO_LEADER, UNKNOWN_BROKER_EPOCH
from kcore.metadata.arrays import Array
from kcore.metadata.broker_table import BrokerTable, Endpoint
from kcore.schema.metadata_records_brokers import BrokerEndpoint
from kcore.types import Uuid


@dataclass(frozen=True, slots=True)
class BrokerRegistration:
    """One broker as it registered, and what became of it (Kafka's BrokerRegistration)."""

    id: int
    epoch: int
    incarnation_id: Uuid
    listeners: tuple[BrokerEndpoint, ...]
    supported_features: dict[str, tuple[int, int]]
    rack: str | None
    fenced: bool
    in_controlled_shutdown: bool
    is_migrating_zk_broker: bool
    directories: tuple[Uuid, ...]
    cordoned_directories: tuple[Uuid, ...] | None


def broker_table(registrations: Sequence[BrokerRegistration], *named: Array) -> BrokerTable:
    """All brokers that registered or are named, by id."""
    registered = {broker.id: broker for broker in registrations}
    found = {int(broker) for each in named for broker in np.unique(each)} | registered.keys()
    ids = sorted(found - {NO_LEADER})
    known = [registered.get(broker) for broker in ids]
    return BrokerTable.from_arrays(
        np.array(ids, np.int64),
        live=np.array([broker is not None and not broker.fenced for broker in known], np.bool_),
        shutting_down=np.array([broker is not None and broker.in_controlled_shutdown for broker in known], np.bool_),
        epochs=np.array([UNKNOWN_BROKER_EPOCH if broker is None else broker.epoch for broker in known], np.int64),
        racks=[None if broker is None else broker.rack for broker in known],
        endpoints=[
            ()
            if broker is None
            else tuple(Endpoint(each.port, each.host, each.name, each.security_protocol) for each in broker.listeners)
            for broker in known
        ],
    )
