"""The table of brokers' requests and their handlers."""

from typing import Final

from kcore.controller.kraft.brokers.heartbeat import on_broker_heartbeat
from kcore.controller.kraft.brokers.nodes import on_controller_registration, on_unregister_broker
from kcore.controller.kraft.brokers.producer_ids import on_allocate_producer_ids
from kcore.controller.kraft.brokers.registration import on_broker_registration
from kcore.controller.kraft.kraft_context import Handler
from kcore.schema.broker_lifecycle import (
    BrokerHeartbeatRequest,
    BrokerRegistrationRequest,
    ControllerRegistrationRequest,
    UnregisterBrokerRequest,
)
from kcore.schema.producers import AllocateProducerIdsRequest
from kcore.schema.structure import Message

HANDLERS: Final[dict[type[Message], Handler]] = {
    BrokerRegistrationRequest: on_broker_registration,
    BrokerHeartbeatRequest: on_broker_heartbeat,
    UnregisterBrokerRequest: on_unregister_broker,
    ControllerRegistrationRequest: on_controller_registration,
    AllocateProducerIdsRequest: on_allocate_producer_ids,
}
