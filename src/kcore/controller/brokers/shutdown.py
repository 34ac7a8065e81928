"""Controlled shutdown: a broker's leaders move away before it stops (KafkaController.doControlledShutdown of 3.9.1)."""

from typing import TYPE_CHECKING

from kcore.controller import events
from kcore.controller.effects import Steps
from kcore.controller.state_changes import carry_out

if TYPE_CHECKING:
    from kcore.controller.active import ActiveController


def on_controlled_shutdown(active: "ActiveController", event: events.ControlledShutdownReceived) -> Steps[None]:
    """What it led and another can lead, another leads; what it follows, it stops following; the rest it is told."""
    decisions = active.decisions
    decision = yield from carry_out(active, lambda: decisions.on_controlled_shutdown(event.request))
    yield from active.send_decision(decision)
    yield from active.answer(event.request_id, decisions.shutdown_response(event.request, decision))
