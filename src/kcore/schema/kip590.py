"""The dialect of KIP-590's document, which Kafka did not ship; kcore uses it only on request.

The document adds to each API that changes metadata a version that only the controller answers. A broker that forwards
an older version names the principal in the header. Kafka shipped the Envelope instead, and used some of these versions
for other changes. Where the document shows no body, the dialect has the last body that Kafka shipped.
"""

from typing import ClassVar, Final

from kcore.schema import configs, headers
from kcore.schema.structure import Message, field
from kcore.schema.versions import Versions


class RequestHeader(headers.RequestHeader, versions="0-2", flexible="2+"):
    """The header, with the principal for the controller's audit log."""

    dialect: ClassVar[str | None] = "kip590"

    # The principal that sent the request to the forwarding broker.
    principal_name: str = field(versions="2+", tag=0, tagged="2+", ignorable=True)


class IncrementalAlterConfigsRequest(Message, api_key=44, versions="0-2", flexible="1+"):
    """The only request that the document specifies in full, without `validateOnly`."""

    dialect: ClassVar[str | None] = "kip590"

    resources: list[configs.IncrementalAlterConfigsRequestAlterConfigsResource]
    validate_only: bool = field(versions="0-1")


MESSAGES: Final[dict[str, type[Message]]] = {
    message.__name__: message for message in (RequestHeader, IncrementalAlterConfigsRequest)
}

# By API: the version, of request and response, that a broker always forwards to the controller.
FORWARDED: Final[dict[str, int]] = {
    "AlterConfigs": 2,
    "IncrementalAlterConfigs": 2,
    "CreateAcls": 3,
    "DeleteAcls": 3,
    "AlterClientQuotas": 1,
    "CreateDelegationToken": 3,
    "RenewDelegationToken": 3,
    "ExpireDelegationToken": 3,
}


def versions(message: type[Message]) -> Versions:
    """The versions of the message in this dialect; classes that the dialect replaces keep their own versions."""
    if message.__name__ in MESSAGES:
        return message.versions
    api = message.__name__.removesuffix("Request").removesuffix("Response")
    lowest, highest = message.versions
    return Versions(lowest, max(highest, FORWARDED.get(api, highest)))
