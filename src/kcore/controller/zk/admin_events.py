"""Requests about security and quotas, as events of a controller."""

from dataclasses import dataclass

from kcore.controller.zk.events import RequestEvent
from kcore.protocol_errors import Errors
from kcore.schema.acls import (
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
    DeleteAclsFilterResult,
    DeleteAclsRequest,
    DeleteAclsResponse,
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
