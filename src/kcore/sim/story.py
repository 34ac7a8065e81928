"""What a world's last events were, a line each."""

from typing import Any

from kcore.schema.structure import Message
from kcore.sim.machine import Call, PendingStore
from kcore.sim.world import DO, KINDS, REQUEST, RESPONSE, STORED, Event, World

MOST_LETTERS = 300


def story(world: World) -> list[str]:
    """The last events, and where all the nodes are now."""
    return [_line(event) for event in world.recent] + [_node(machine) for machine in world.machines]


def _line(event: Event) -> str:
    time_us, number, kind, machine, what = event
    place = f"node {machine.index}" if machine is not None else "the world"
    return f"{time_us / 1_000_000:12.6f} s  #{number:<7} {place:10} {KINDS[kind]}{_told(kind, what)}"


def _told(kind: int, what: Any) -> str:
    if kind == REQUEST:
        return f" from {_source(what)}: {_short(what.request)}"
    if kind == RESPONSE:
        call, response = what
        return f" from node {call.destination.index} to {type(call.request).__name__}: {_short(response)}"
    if kind == STORED:
        assert isinstance(what, PendingStore)
        return f": {what.election}"
    return f": {what.__qualname__.split('.<locals>')[0]}" if kind == DO else ""


def _source(call: Call) -> str:
    return f"node {call.source.index}" if call.source is not None else "outside"


def _short(message: Message | None) -> str:
    """What is said, without what every such message says."""
    text = "no answer" if message is None else repr(message)
    return text if len(text) <= MOST_LETTERS else f"{text[:MOST_LETTERS]}..."


def _node(machine: Any) -> str:
    if not machine.is_up:
        return f"node {machine.index}: down"
    log, waits = machine.log, ", its events wait" if machine.gate else ""
    return (
        f"node {machine.index}: {machine.node.state}, log {log.start_offset} to {log.end_offset}, "
        f"durable to {log.flushed_end}, high watermark {machine.node.high_watermark}{waits}"
    )
