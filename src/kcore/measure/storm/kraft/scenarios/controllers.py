"""Scenarios in which controllers die."""

import asyncio
from typing import Final

from kcore.errors import TargetError
from kcore.measure.processes.controller_quorum import Node
from kcore.measure.storm.expectations import exactly
from kcore.measure.storm.kraft.kraft_storm import Measure, Storm
from kcore.measure.storm.kraft.scenarios.topics import make_topics
from kcore.measure.storm.result import ScenarioResult

_POLL_S: Final = 0.1
_STOP_S: Final = 15.0  # A standby that has not ended by then is killed.
_MISSED: Final = 3  # Topics that a suspended node misses. One is too few: it may still read its last answer.


async def controller_killed(storm: Storm) -> ScenarioResult:
    """The active controller is killed (kill -9), and a topic of one partition is requested at once.

    Timed from the kill until a new controller has created the topic, and until the first and the last broker know the
    topic; they must first find the new controller. The wave "elected": until the new leader began its epoch. Afterwards
    the killed controller starts again and catches up. TargetError unless this run started three controllers or more.
    """
    active, *_ = _active_first(storm, "controller-killed")
    measure = Measure(storm, "controller-killed")
    await measure.begin(exactly(1, "a topic of one partition"))
    epoch = storm.fleet.observer.epoch
    active.kill()
    await _make_a_topic(storm)
    measure.answered()
    result = await measure.end("PartitionRecord")
    measure.elected(epoch)
    active.start(wait=False)
    await _caught_up(storm, active)
    return result


async def standby_takes_over(storm: Storm) -> ScenarioResult:
    """A standby restarts from its snapshot and log; then the active controller is killed, and the standby takes over.

    Two waves. "restarted": from the standby's start until the last broker knows its new registration, which the standby
    requests once it has the state. "took over": from the kill -9 of the active controller until the last broker knows
    a topic that the standby has created. The third controller is suspended before the kill and misses some records, so
    that it can vote but cannot be elected. Afterwards the killed controller starts again. TargetError unless this run
    started three controllers or more.
    """
    active, standby, third, *_ = _active_first(storm, "standby-takes-over")
    standby.terminate(_STOP_S)
    measure = Measure(storm, "standby-takes-over")
    await measure.begin(exactly(_MISSED + 1, "topics of one partition"))
    await _register_again(storm, standby)
    await measure.wave("restarted", "RegisterControllerRecord")
    await _caught_up(storm, third)
    with third.suspended():
        for _ in range(_MISSED):
            await _make_a_topic(storm)
        measure.begin_wave()
        active.kill()
    await _make_a_topic(storm)
    measure.answered()
    await measure.wave("took over", "PartitionRecord")
    if storm.quorum.leader_id != standby.node_id:
        raise TargetError(f"controller {storm.quorum.leader_id} took over, not {standby.node_id}, which was restarted")
    result = await measure.end("PartitionRecord")
    await _register_again(storm, active)
    return result


def _active_first(storm: Storm, scenario: str) -> list[Node]:
    """All controllers, the active one first; TargetError unless this run started three or more."""
    processes = storm.processes
    if processes is None or len(processes.nodes) < 3:
        raise TargetError(f"{scenario} needs three controllers of a target that this run starts")
    return sorted(processes.nodes, key=lambda node: node.node_id != storm.quorum.leader_id)


async def _make_a_topic(storm: Storm) -> None:
    """Creates a topic of one partition."""
    await make_topics(storm, [(f"{storm.prefix}{storm.named:06}", 1)])


async def _register_again(storm: Storm, node: Node) -> None:
    """Starts a controller that has ended, and returns when its registration as a new incarnation is known."""
    before = storm.fleet.observer.image.controllers.get(node.node_id)
    node.start(wait=False)
    what = f"controller {node.node_id} to register as a new incarnation"
    await storm.until(what, lambda: storm.fleet.observer.image.controllers.get(node.node_id) is not before)


async def _caught_up(storm: Storm, node: Node) -> None:
    """Returns when the controller's log reaches the high watermark at the call. TargetError after a time-out."""
    target = (await storm.quorum.describe()).high_watermark
    try:
        async with asyncio.timeout(storm.timeout_s):
            while True:
                ends = {each.replica_id: each.log_end_offset for each in (await storm.quorum.describe()).current_voters}
                if ends.get(node.node_id, -1) >= target:
                    return
                await asyncio.sleep(_POLL_S)
    except TimeoutError:
        raise TargetError(f"controller {node.node_id} did not catch up within {storm.timeout_s:g} s") from None
