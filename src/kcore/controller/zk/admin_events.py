"""Requests about security and quotas, as events of a controller."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from kcore.controller.rules.tokens import REQUESTER_SINCE, owner_of
from kcore.controller.zk.events import Event, RequestEvent
from kcore.metadata.principal import KafkaPrincipal
from kcore.protocol_errors import Errors
from kcore.schema.acls import (
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
    DeleteAclsFilterResult,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from kcore.schema.delegation_tokens import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)
from kcore.schema.quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    AlterClientQuotasResponseEntryData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
)
from kcore.schema.structure import Message


@dataclass(frozen=True, slots=True)
class CreateAcls(RequestEvent):
    """CreateAcls."""

    request_id: int
    request: CreateAclsRequest

    def refused(self, error: Errors) -> Message:
        """A result for each entry."""
        return CreateAclsResponse(
            results=[AclCreationResult(error_code=error, error_message=None) for _ in self.request.creations]
        )


@dataclass(frozen=True, slots=True)
class DeleteAcls(RequestEvent):
    """DeleteAcls."""

    request_id: int
    request: DeleteAclsRequest

    def refused(self, error: Errors) -> Message:
        """A result for each filter."""
        results = [DeleteAclsFilterResult(error_code=error, error_message=None) for _ in self.request.filters]
        return DeleteAclsResponse(filter_results=results)


@dataclass(frozen=True, slots=True)
class AlterClientQuotas(RequestEvent):
    """AlterClientQuotas."""

    request_id: int
    request: AlterClientQuotasRequest

    def refused(self, error: Errors) -> Message:
        """Every entity is named."""
        entries = [
            AlterClientQuotasResponseEntryData(
                error_code=error,
                error_message=None,
                entity=[EntityData(entity_type=part.entity_type, entity_name=part.entity_name) for part in each.entity],
            )
            for each in self.request.entries
        ]
        return AlterClientQuotasResponse(entries=entries)


@dataclass(frozen=True, slots=True)
class DescribeClientQuotas(RequestEvent):
    """DescribeClientQuotas."""

    request_id: int
    request: DescribeClientQuotasRequest

    def refused(self, error: Errors) -> Message:
        """No entity is named."""
        return DescribeClientQuotasResponse(error_code=error, error_message=None, entries=None)


OfTokens: TypeAlias = (
    CreateDelegationTokenRequest
    | RenewDelegationTokenRequest
    | ExpireDelegationTokenRequest
    | DescribeDelegationTokenRequest
)


class Asking(NamedTuple):
    """Who makes a request about tokens, and when."""

    principal: KafkaPrincipal
    wall_ms: int  # Since 1970: time stamps of tokens.
    may_describe: Callable[[str, str], bool]  # Tokens of others, by token id and owner.


@dataclass(frozen=True, slots=True)
class TokenRequest(RequestEvent):
    """CreateDelegationToken, RenewDelegationToken, ExpireDelegationToken, DescribeDelegationToken."""

    request_id: int
    request: OfTokens
    version: int
    asking: Asking

    def refused(self, error: Errors) -> Message:
        """The times of an error are -1; of a token that is not made the owner is named."""
        match self.request:
            case CreateDelegationTokenRequest():
                return self._not_created(self.request, error)
            case RenewDelegationTokenRequest():
                return RenewDelegationTokenResponse(error_code=error, expiry_timestamp_ms=-1)
            case ExpireDelegationTokenRequest():
                return ExpireDelegationTokenResponse(error_code=error, expiry_timestamp_ms=-1)
            case DescribeDelegationTokenRequest():
                return DescribeDelegationTokenResponse(error_code=error, tokens=[])

    def _not_created(self, request: CreateDelegationTokenRequest, error: Errors) -> Message:
        requester = self.asking.principal
        owner = owner_of(request, requester)
        response = CreateDelegationTokenResponse(
            error_code=error,
            principal_type=owner.principal_type,
            principal_name=owner.name,
            issue_timestamp_ms=-1,
            expiry_timestamp_ms=-1,
            max_timestamp_ms=-1,
        )
        if self.version >= REQUESTER_SINCE:
            response.token_requester_principal_type = requester.principal_type
            response.token_requester_principal_name = requester.name
        return response


@dataclass(frozen=True, slots=True)
class ExpireTokens(Event):
    """It is time to remove expired tokens: delegation.token.expiry.check.interval.ms."""

    wall_ms: int
