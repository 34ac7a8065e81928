"""Where Kafka's controller fails over a request: it answers -1, and gives up its leadership (QuorumController)."""

from kcore.controller.kraft.kraft_controller_config import KraftControllerConfig
from kcore.controller.rules.error_responses import refused
from kcore.errors import KcoreError
from kcore.protocol_errors import Errors
from kcore.schema.broker_lifecycle import UnregisterBrokerRequest
from kcore.schema.structure import Message


class ControllerFaultError(KcoreError):
    """Raised where a departure is switched back whose Kafka's way is to fail. Its text is that of Kafka's exception."""

    def answer(self, request: Message) -> Message:
        """Source: `getErrorResponse` of Kafka's request classes, ApiError.fromThrowable."""
        told = str(self) if isinstance(request, UnregisterBrokerRequest) else None
        return refused(request, Errors.UNKNOWN_SERVER_ERROR, told)


def fail_as_kafka(config: KraftControllerConfig, departure: str, reason: str) -> None:
    """ControllerFaultError if that departure is switched back; kcore's own way comes behind the call."""
    if departure in config.kafka_way:
        raise ControllerFaultError(reason)
