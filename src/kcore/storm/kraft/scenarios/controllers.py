"""Controllers die."""

import asyncio
from typing import Final

from kcore.errors import TargetError
from kcore.processes.controller_quorum import Node
from kcore.storm.kraft.scenarios.topics import make_topics
from kcore.storm.kraft.storm import Measure, Storm
from kcore.storm.result import ScenarioResult

_POLL_S: Final = 0.1


async def controller_killed(storm: Storm) -> ScenarioResult:
    """The active controller is killed (kill -9), and a topic of one partition is requested at once.

    Timed from the kill until a new controller has created the topic, and until the first and the last broker, which all
    have to find that controller, know it. Afterwards the dead one starts again and catches up. TargetError unless there
    are three controllers or more, which this run started.
    """
    processes, quorum = storm.processes, storm.quorum
    if processes is None or len(processes.nodes) < 3:
        raise TargetError("controller-killed needs three controllers of a target that this run starts")
    [active] = [node for node in processes.nodes if node.node_id == quorum.leader_id]
    measure = Measure(storm, "controller-killed")
    await measure.begin()
    processes.kill(active)
    await make_topics(storm, [(f"{storm.prefix}{storm.named:06}", 1)])
    measure.answered()
    result = await measure.end("PartitionRecord")
    processes.start_node(active)
    await _caught_up(storm, active)
    return result


async def _caught_up(storm: Storm, node: Node) -> None:
    """Returns when that controller has all of the log that was there at the call. TargetError if it does not."""
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
