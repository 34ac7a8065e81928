"""Failures of Kafka's controller: it answers a request with -1 and resigns (QuorumController)."""

from kcore.controller.kraft.kraft_controller_config import KraftControllerConfig
from kcore.errors import KcoreError
from kcore.node.error_responses import refused
from kcore.protocol_errors import Errors
from kcore.schema.broker_lifecycle import UnregisterBrokerRequest
from kcore.schema.structure import Message


class ControllerFaultError(KcoreError):
    """Raised for a switched-back departure in which Kafka's controller fails, with the text of Kafka's exception."""

    def answer(self, request: Message) -> Message:
        """The response to the request that failed. Source: AbstractRequest.getErrorResponse, ApiError.fromThrowable."""
        message = str(self) if isinstance(request, UnregisterBrokerRequest) else None
        return refused(request, Errors.UNKNOWN_SERVER_ERROR, message)


def fail_as_kafka(config: KraftControllerConfig, departure: str, reason: str) -> None:
    """ControllerFaultError if the departure is switched back; the code after the call is kcore's own rule."""
    if departure in config.kafka_way:
        raise ControllerFaultError(reason)
