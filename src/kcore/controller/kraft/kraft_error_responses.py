"""Error responses that name the active controller, or that differ by release."""

from kcore.controller.kraft.kraft_controller_config import KraftControllerConfig
from kcore.node.error_responses import refused
from kcore.protocol_errors import Errors
from kcore.schema.broker_lifecycle import UnregisterBrokerRequest, UnregisterBrokerResponse
from kcore.schema.structure import Message


def not_controller(request: Message, config: KraftControllerConfig, leader_id: int = -1) -> Message:
    """The response of a node that is not the active controller. `leader_id` -1: the active controller is unknown."""
    message = f"The active controller appears to be node {leader_id}."
    if leader_id in (-1, config.node.node_id):
        message = "No controller appears to be active."
    if isinstance(request, UnregisterBrokerRequest):
        return unregister_broker(config, Errors.NOT_CONTROLLER, message)
    return refused(request, Errors.NOT_CONTROLLER, message)


def unregister_broker(config: KraftControllerConfig, error: Errors, message: str) -> UnregisterBrokerResponse:
    """The response to a refused UnregisterBroker; 3.9.1 sends only the code."""
    response = UnregisterBrokerResponse(error_code=error)
    if config.node.rules.unregistration_has_message:
        response.error_message = message
    return response
