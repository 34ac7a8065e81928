"""Which function decides which request, over all subjects."""

from typing import Final

from kcore.controller.kraft.admin import requests as admin
from kcore.controller.kraft.brokers import requests as brokers
from kcore.controller.kraft.context import Handler
from kcore.controller.kraft.leaders import requests as leaders
from kcore.controller.kraft.topics import requests as topics
from kcore.schema.structure import Message

HANDLERS: Final[dict[type[Message], Handler]] = {
    **brokers.HANDLERS,
    **topics.HANDLERS,
    **leaders.HANDLERS,
    **admin.HANDLERS,
}
