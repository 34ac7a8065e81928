"""The controller as the node that alters and describes settings; `node/zk/admin/configs.py` handles the requests."""

from typing import Final

from kcore.controller.zk.events import RequestEvent
from kcore.controller.zk.zk_context import ControllerContext
from kcore.node.zk.admin.broker_configs import ConfigNode
from kcore.node.zk.admin.configs import settings_of
from kcore.schema.structure import Message

NOT_KAFKAS: Final = ("endpoints", "rack", "supported_features", "authorizer", "acknowledgement_timeout_ms")


def controller_node(context: ControllerContext, event: RequestEvent[Message]) -> ConfigNode:
    """The controller as the node that alters and describes settings.

    A proxied request may alter the settings of any broker: brokers that proxy requests do not alter their own.
    """
    config, topics = context.config, context.table.topics
    names = {str(each) for each in context.table.brokers.ids.tolist()} if event.is_proxied else set[str]()
    return ConfigNode(
        config.broker_id,
        is_broker=False,
        has_topic=lambda name: name in topics and name not in context.topics_to_be_deleted,
        settings=settings_of(config, NOT_KAFKAS),
        answers_for=names.__contains__,
    )
