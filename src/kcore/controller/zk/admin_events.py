"""Requests about security and quotas, as events of a controller."""

from dataclasses import dataclass
from typing import NamedTuple

from kcore.controller.rules.tokens import MayDescribe, OfTokens, refused
from kcore.controller.zk.events import Event, RequestEvent
from kcore.metadata.principal import KafkaPrincipal
from kcore.protocol_errors import Errors
from kcore.schema.acls import (
    CreateAclsRequest,
    DeleteAclsRequest,
)
from kcore.schema.quotas import (
    AlterClientQuotasRequest,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)
from kcore.schema.structure import Message


@dataclass(frozen=True, slots=True)
class CreateAcls(RequestEvent):
    """CreateAcls."""

    request_id: int
    request: CreateAclsRequest


@dataclass(frozen=True, slots=True)
class DeleteAcls(RequestEvent):
    """DeleteAcls."""

    request_id: int
    request: DeleteAclsRequest


@dataclass(frozen=True, slots=True)
class AlterClientQuotas(RequestEvent):
    """AlterClientQuotas."""

    request_id: int
    request: AlterClientQuotasRequest


@dataclass(frozen=True, slots=True)
class DescribeClientQuotas(RequestEvent):
    """DescribeClientQuotas."""

    request_id: int
    request: DescribeClientQuotasRequest

    def refused(self, error: Errors) -> Message:
        """No entity is named."""
        return DescribeClientQuotasResponse(error_code=error, error_message=None, entries=None)


class Asking(NamedTuple):
    """Who makes a request about tokens, and when."""

    principal: KafkaPrincipal
    wall_ms: int  # Since 1970: time stamps of tokens.
    may_describe: MayDescribe
    client_id: str | None = None


@dataclass(frozen=True, slots=True)
class TokenRequest(RequestEvent):
    """CreateDelegationToken, RenewDelegationToken, ExpireDelegationToken, DescribeDelegationToken."""

    request_id: int
    request: OfTokens
    version: int
    asking: Asking

    def refused(self, error: Errors) -> Message:
        """The times of an error are -1; of a token that is not made the owner is named."""
        return refused(self.request, self.version, self.asking.principal, error)


@dataclass(frozen=True, slots=True)
class ExpireTokens(Event):
    """It is time to remove expired tokens: delegation.token.expiry.check.interval.ms."""

    wall_ms: int
