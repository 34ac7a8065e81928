"""Handles changed settings that concern the controller: a topic's unclean elections, and mutation quotas.

Source: ZkNodeChangeNotificationListener, TopicConfigHandler and processTopicUncleanLeaderElectionEnable of 3.9.1.
"""

from kcore.controller.zk import events
from kcore.controller.zk.admin.quotas import on_quota_change
from kcore.controller.zk.effects import Steps, read_children, read_nodes
from kcore.controller.zk.leaders import unclean
from kcore.controller.zk.state_changes import carry_out
from kcore.controller.zk.zk_context import ControllerContext
from kcore.controller.zk.znode_reading import pass_over
from kcore.errors import TableError
from kcore.metadata.zookeeper import znodes


def on_config_change(context: ControllerContext, event: events.ConfigChange) -> Steps[None]:
    """Reads the settings of each entity that a new notification names."""
    names = yield from read_children(znodes.CONFIG_CHANGES, watch=True)
    paths = [f"{znodes.CONFIG_CHANGES}/{name}" for name in names if name not in context.config_changes_seen]
    context.config_changes_seen = {*names}
    nodes = yield from read_nodes(paths)
    entities = set()
    for path, node in zip(paths, nodes, strict=True):
        try:
            entities |= set() if node is None else {znodes.decode_config_change(path, node.data)}
        except TableError as error:
            yield from pass_over(context.passed_over, [error])
    for entity in sorted(entities):
        kind, _, topic = entity.partition("/")
        if kind == "topics" and topic in context.table.topics:
            yield from on_topic_unclean_enable(context, events.TopicUncleanLeaderElectionEnable(topic))
        else:
            yield from on_quota_change(context, entity)


def on_topic_unclean_enable(context: ControllerContext, event: events.TopicUncleanLeaderElectionEnable) -> Steps[None]:
    """Elects leaders for the topic's partitions without one, uncleanly if the topic's settings allow it."""
    if event.topic not in context.table.topics:
        return
    rows = context.table.rows_of_topic(event.topic)
    rows.sort()
    yield from unclean.learn(context, rows)
    why = f"settings of topic {event.topic} changed"
    decision = yield from carry_out(context, lambda: context.decisions.on_offline_partitions(rows), why)
    yield from context.send_decision(decision)
