"""Reads which topics allow unclean elections, from ZooKeeper and only when an election needs it, as Kafka does.

Source: PartitionStateMachine.collectUncleanLeaderElectionState of 3.9.1, processTopicUncleanLeaderElectionEnable.
"""

from collections.abc import Sequence

import numpy as np

from kcore.constants import UNCLEAN_ELECTION
from kcore.controller.zk.effects import Steps
from kcore.controller.zk.zk_context import ControllerContext
from kcore.errors import TableError
from kcore.metadata.zookeeper import znodes
from kcore.node.zk.znode_steps import pass_over, read_nodes
from kcore.types import Int32s


def learn(
    context: ControllerContext, rows: Int32s, leaving: Sequence[int] = (), starting: Sequence[int] = ()
) -> Steps[None]:
    """Sets `ZkController.unclean` before an election of the partitions in `rows`.

    The controller's default applies, except to topics with a partition that no ISR member can lead: their settings are
    read from ZooKeeper. Brokers in `leaving` count as failed, and brokers in `starting` as live.
    """
    decisions, table = context.decisions, context.table
    default = context.config.unclean_leader_election_enable
    decisions.unclean = default
    leaderless = _without_live_isr(context, rows, leaving, starting)
    if not len(leaderless):
        return
    topic_rows = np.unique(table.topic_row__p[leaderless])
    names = [table.topics.names[row] for row in topic_rows.tolist()]
    nodes = yield from read_nodes([znodes.config_path("topics", name) for name in names])
    allowed = np.full(len(names), default)
    for place, (name, node) in enumerate(zip(names, nodes, strict=True)):
        try:
            allowed[place] = _allowed(name, node and node.data, default)
        except TableError as error:  # The default applies, as for a topic without settings.
            yield from pass_over(context.passed_over, [error])
    if (allowed != default).any():
        by_partition = np.full(len(table), default)
        by_partition[leaderless] = allowed[np.searchsorted(topic_rows, table.topic_row__p[leaderless])]
        decisions.unclean = by_partition


def _allowed(name: str, data: bytes | None, default: bool) -> bool:
    if data is None:
        return default
    config = znodes.decode_config(znodes.config_path("topics", name), data)
    return config.get(UNCLEAN_ELECTION, str(default)).strip().lower() == "true"


def _without_live_isr(
    context: ControllerContext, rows: Int32s, leaving: Sequence[int], starting: Sequence[int]
) -> Int32s:
    brokers, table = context.table.brokers, context.table
    online = np.append(brokers.live & ~brokers.shutting_down, False)  # Row -1, the last item, is no broker.
    online[brokers.rows(leaving)], online[brokers.rows(starting)] = False, True
    rows = rows[table.leader_epoch__p[rows] >= 0]
    waiting: Int32s = rows[~online[table.isr__pi[rows]].any(axis=1)]
    return waiting
