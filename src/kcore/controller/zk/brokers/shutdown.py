"""Controlled shutdown: other brokers lead before a broker stops (KafkaController.doControlledShutdown of 3.9.1)."""

from kcore.controller.zk.effects import Steps, log_notice
from kcore.controller.zk.events import ControlledShutdown, RequestEvent
from kcore.controller.zk.log_lines import TextNotice, counted
from kcore.controller.zk.state_changes import carry_out
from kcore.controller.zk.zk_context import ControllerContext
from kcore.protocol_errors import Errors
from kcore.schema import ControlledShutdownRequest
from kcore.schema.structure import Message


def on_controlled_shutdown(
    context: ControllerContext, event: RequestEvent[ControlledShutdownRequest]
) -> Steps[Message]:
    """Moves the broker's leaders, stops its followers, and responds with the partitions that it still leads."""
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
