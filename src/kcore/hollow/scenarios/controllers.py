"""Controllers die."""

import asyncio

from kcore.errors import TargetError
from kcore.hollow.kafka import Node
from kcore.hollow.outcome import Outcome
from kcore.hollow.scenarios.topics import make_topics
from kcore.hollow.storm import Measure, Storm
from kcore.protocol_errors import Errors
from kcore.schema.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartitionData,
    DescribeQuorumRequestTopicData,
)

_POLL_S = 0.1


async def controller_killed(storm: Storm) -> Outcome:
    """The active controller dies as by kill -9, and somebody asks for a topic of one partition at once.

    Timed from the death until a new controller has made the topic, and until the first and the last broker, which all
    have to find that controller, know it. Afterwards the dead one starts again and catches up. TargetError unless there
    are three controllers or more, which this run started.
    """
    kafka, quorum = storm.kafka, storm.quorum
    if kafka is None or len(kafka.nodes) < 3:
        raise TargetError("controller-killed needs three controllers of a target that this run starts")
    [active] = [node for node in kafka.nodes if node.node_id == quorum.leader_id]
    measure = Measure(storm, "controller-killed")
    await measure.begin()
    kafka.kill(active)
    await make_topics(storm, [(f"storm-{storm.named:06}", 1)])
    measure.answered()
    outcome = await measure.end("PartitionRecord")
    kafka.start_node(active)
    await _caught_up(storm, active)
    return outcome


async def _caught_up(storm: Storm, node: Node) -> None:
    """Returns when that controller has all of the log that was there at the call. TargetError if it does not."""
    target = storm.fleet.timeline.committed
    partition = DescribeQuorumRequestPartitionData(partition_index=0)
    topic = DescribeQuorumRequestTopicData(topic_name="__cluster_metadata", partitions=[partition])
    try:
        async with asyncio.timeout(storm.timeout_s):
            while True:
                answer = await storm.quorum.ask(DescribeQuorumRequest(topics=[topic]))
                [found] = answer.topics[0].partitions
                if found.error_code:
                    raise TargetError(f"DescribeQuorum was refused: {Errors.of(found.error_code).name}")
                ends = {voter.replica_id: voter.log_end_offset for voter in found.current_voters}
                if ends.get(node.node_id, -1) >= target:
                    return
                await asyncio.sleep(_POLL_S)
    except TimeoutError:
        raise TargetError(f"controller {node.node_id} did not catch up within {storm.timeout_s:g} s") from None
