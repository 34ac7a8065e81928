"""Requests to a ZooKeeper-mode broker about ACLs, client quotas and delegation tokens.

This data is in ZooKeeper, where every node of the cluster reads and changes it; notifications inform the other nodes.
Source: KafkaApis, AclApis, DelegationTokenManagerZk of 3.9.1.
"""

from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

from kcore.errors import DecodeError
from kcore.net.limits.work_in_parts import run_steps
from kcore.net.request_context import RequestContext
from kcore.net.versions import api_name
from kcore.node.authorization import Authorizer
from kcore.node.parsed import is_parsed
from kcore.node.tokens import OfTokens, owner_of
from kcore.node.zk.acls import ZkAcls
from kcore.node.zk.admin import acls, quotas
from kcore.node.zk.admin.tokens import TokenNode, TokenRequest, token_response
from kcore.node.zk.requester import Requester
from kcore.node.zk.znode_steps import ZnodeSteps
from kcore.protocol_errors import Errors
from kcore.schema.acls import CreateAclsRequest, DeleteAclsRequest, DescribeAclsRequest
from kcore.schema.delegation_tokens import CreateDelegationTokenRequest, DescribeDelegationTokenRequest
from kcore.schema.quotas import AlterClientQuotasRequest, DescribeClientQuotasRequest
from kcore.schema.structure import Message
from kcore.server.broker import token_requests
from kcore.server.security.rights import Rights

APIS: Final = {
    **{"CreateAcls": (0, 3), "DeleteAcls": (0, 3), "DescribeAcls": (0, 3)},
    **{"AlterClientQuotas": (0, 1), "DescribeClientQuotas": (0, 1)},
    **{"CreateDelegationToken": (1, 3), "RenewDelegationToken": (1, 2), "ExpireDelegationToken": (1, 2)},
    "DescribeDelegationToken": (1, 3),
}


class SecurityAdmin(NamedTuple):
    """Answers the requests. `BrokerAuthorization` checks rights to the cluster, this class rights to tokens."""

    perform: Callable[[ZnodeSteps[Message]], Awaitable[Message]]  # Performs steps in ZooKeeper.
    acls: ZkAcls | None  # None without an authorizer.
    tokens: TokenNode
    authorizer: Authorizer | None
    date_ms: Callable[[], int]
    migrates: bool  # True: only the controller changes tokens.

    async def answer(self, context: RequestContext, request: Message) -> Message | None:
        """The response; None for other requests. DecodeError for a request with codes that Kafka's parser rejects."""
        if not is_parsed(request):
            raise DecodeError(f"{api_name(type(request))} has an unknown code", 0)
        match request:
            case CreateAclsRequest():
                return await self.perform(acls.create_acls(self.acls, request))
            case DeleteAclsRequest():
                return await self.perform(acls.delete_acls(self.acls, request))
            case DescribeAclsRequest():
                return await run_steps(acls.describe_acls(self.acls, request))
            case AlterClientQuotasRequest():
                return await self.perform(quotas.alter(request))
            case DescribeClientQuotasRequest():
                return await self.perform(quotas.describe(request))
        return await self._of_token(context, request) if isinstance(request, OfTokens) else None

    async def _of_token(self, context: RequestContext, request: OfTokens) -> Message:
        refused = token_requests.refusal_of(request, context.version, context.session)
        if refused is not None:
            return refused
        rights = None if self.authorizer is None else Rights(self.authorizer, context)
        requester = Requester(context.principal, wall_ms=self.date_ms())
        if rights is not None:
            requester = requester._replace(may_describe_token=rights.may_describe_token)
        asked = TokenRequest(request, context.version, requester)
        if isinstance(request, CreateDelegationTokenRequest) and rights is not None:
            owner = owner_of(request, context.principal)
            if not rights.may_make_token(owner):
                return asked.refused(Errors.DELEGATION_TOKEN_AUTHORIZATION_FAILED)
        if self.migrates and not isinstance(request, DescribeDelegationTokenRequest):
            return asked.refused(Errors.NOT_CONTROLLER)
        return await self.perform(token_response(self.tokens, asked))
