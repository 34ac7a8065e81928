"""The client whose request a node of ZooKeeper mode handles."""

from typing import Final, NamedTuple

from kcore.metadata.principal import ANONYMOUS, KafkaPrincipal
from kcore.node import tokens


class Requester(NamedTuple):
    """The client that sent a request: its quotas count the request, and its principal has rights to tokens."""

    principal: KafkaPrincipal = ANONYMOUS
    client_id: str | None = ""
    wall_ms: int = 0  # When the request arrived, in ms since 1970; for the time stamps of tokens.
    may_describe_token: tokens.MayDescribe = lambda token_id, owner: True


NO_REQUESTER: Final = Requester()
