# Made by ci/schema_stubs.py of the file beside it.
from typing import ClassVar, Final

from kcore.schema import configs, headers
from kcore.schema.structure import Message
from kcore.schema.versions import Versions

class RequestHeader(headers.RequestHeader, versions="0-2", flexible="2+"):
    dialect: ClassVar[str | None] = ...
    principal_name: str = ...

class IncrementalAlterConfigsRequest(Message, api_key=44, versions="0-2", flexible="1+"):
    dialect: ClassVar[str | None] = ...
    resources: list[configs.IncrementalAlterConfigsRequestAlterConfigsResource] = ...
    validate_only: bool = ...

MESSAGES: Final[dict[str, type[Message]]]
FORWARDED: Final[dict[str, int]]

def versions(message: type[Message]) -> Versions: ...
