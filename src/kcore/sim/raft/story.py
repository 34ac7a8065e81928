"""Describes a world's last events, one line each."""

from typing import Any, Final

from kcore.schema.structure import Message, Struct
from kcore.sim.kernel.events import DO, KINDS, REQUEST, RESPONSE, STORED, Described, Event
from kcore.sim.raft.simulated_machine import PendingStore, Reply
from kcore.sim.raft.world import World
from kcore.types import Uuid

MOST_LETTERS: Final = 300


def story(world: World) -> list[str]:
    """The last notable events, the last events of all kinds, and the present state of all nodes."""
    notable = [f"{time_us / 1_000_000:12.6f} s  {text()}" for time_us, text in world.notable]
    return [*notable, "the last events:", *map(_line, world.recent), *map(_node, world.machines)]


def _line(event: Event) -> str:
    time_us, number, kind, machine, what = event
    place = f"node {machine.index}" if machine is not None else "the world"
    return f"{time_us / 1_000_000:12.6f} s  #{number:<7} {place:10} {KINDS[kind]}{_details(kind, what)}"


def _details(kind: int, what: Any) -> str:
    if kind == REQUEST:
        source = f"node {what.source.index}" if what.source is not None else "outside"
        return f" from {source}: {short(what.request)}"
    if kind == RESPONSE:
        assert isinstance(what, Reply)
        call, damage = what.call, ", damaged" if what.is_damaged else ""
        return f" from node {call.destination.index} to {type(call.request).__name__}{damage}: {short(what.response)}"
    if kind == STORED:
        assert isinstance(what, PendingStore)
        return f": {what.election}"
    if kind == DO:
        return f": {what.text()}" if isinstance(what, Described) else f": {what.__qualname__.split('.<locals>')[0]}"
    return ""


def short(message: Message | None) -> str:
    """A message or record without its default fields, shortened."""
    return "no answer" if message is None else _brief(message)[:MOST_LETTERS]


def _brief(value: Any) -> str:
    """The fields that are not defaults; nested structs without their names."""
    if isinstance(value, Uuid):
        return str(value)
    if isinstance(value, Struct):
        fields = ((field, getattr(value, field.name)) for field in value.__fields__)
        parts = (f"{field.name}={_brief(held)}" for field, held in fields if held != field.default())
        name = type(value).__name__ if isinstance(value, Message) else ""
        return f"{name}({', '.join(parts)})"
    if isinstance(value, list):
        return f"[{', '.join(map(_brief, value))}]"
    return f"{len(value)} bytes" if isinstance(value, bytes | memoryview) else str(value)


def _node(machine: Any) -> str:
    if not machine.is_up:
        return f"node {machine.index}: down"
    log, waits = machine.log, ", its events wait" if machine.blocked else ""
    return (
        f"node {machine.index}: {machine.node.state}, log {log.start_offset} to {log.end_offset}, "
        f"durable to {log.flushed_end}, high watermark {machine.node.high_watermark}{waits}"
    )
