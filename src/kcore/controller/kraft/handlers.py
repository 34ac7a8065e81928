"""Which function decides which request, over all subjects."""

from typing import Final

from kcore.controller.kraft.admin import requests as admin
from kcore.controller.kraft.brokers import requests as brokers
from kcore.controller.kraft.context import Handler, Slicer
from kcore.controller.kraft.leaders import requests as leaders
from kcore.controller.kraft.topics import requests as topics
from kcore.schema.structure import Message

HANDLERS: Final[dict[type[Message], Handler]] = {
    **brokers.HANDLERS,
    **topics.HANDLERS,
    **leaders.HANDLERS,
    **admin.HANDLERS,
}
SLICERS: Final[dict[type[Message], Slicer]] = {**topics.SLICERS, **leaders.SLICERS}
"""Those that decide a request for many topics or partitions part by part."""
