"""Which function decides which request of this subject."""

from typing import Final

from kcore.controller.kraft.admin.configs import HANDLERS as CONFIGS
from kcore.controller.kraft.context import Handler
from kcore.schema.structure import Message

HANDLERS: Final[dict[type[Message], Handler]] = {**CONFIGS}
