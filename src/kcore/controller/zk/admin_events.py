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
