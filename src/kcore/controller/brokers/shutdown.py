"""Controlled shutdown: a broker's leaders move away before it stops (KafkaController.doControlledShutdown of 3.9.1)."""

from kcore.controller import events
from kcore.controller.context import ControllerContext
from kcore.controller.effects import Steps
from kcore.controller.state_changes import carry_out


def on_controlled_shutdown(context: ControllerContext, event: events.ControlledShutdownReceived) -> Steps[None]:
    """What it led and another can lead, another leads; what it follows, it stops following; the rest it is told."""
    decisions = context.decisions
    decision = yield from carry_out(context, lambda: decisions.on_controlled_shutdown(event.request))
    yield from context.send_decision(decision)
    yield from context.answer(event.request_id, decisions.shutdown_response(event.request, decision))
