"""The table of requests about topics and configurations, and their handlers."""

from typing import Final

from kcore.controller.kraft.admin.config_descriptions import HANDLERS as DESCRIPTIONS
from kcore.controller.kraft.admin.configs import HANDLERS as CONFIGS
from kcore.controller.kraft.kraft_context import Handler
from kcore.controller.kraft.topics.creation import on_create_topics
from kcore.controller.kraft.topics.deletion import on_delete_topics
from kcore.controller.kraft.topics.growth import on_create_partitions
from kcore.schema.partitions import CreatePartitionsRequest
from kcore.schema.structure import Message
from kcore.schema.topics import CreateTopicsRequest, DeleteTopicsRequest

HANDLERS: Final[dict[type[Message], Handler]] = {
    **CONFIGS,
    **DESCRIPTIONS,
    CreateTopicsRequest: on_create_topics,
    CreatePartitionsRequest: on_create_partitions,
    DeleteTopicsRequest: on_delete_topics,
}
