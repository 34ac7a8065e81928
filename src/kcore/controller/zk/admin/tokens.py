"""Token requests to the controller, whose mutation quotas count them; `node/zk/admin/tokens.py` answers them."""

from functools import partial

from kcore.controller.zk.admin.quotas import quota_of
from kcore.controller.zk.effects import Steps
from kcore.controller.zk.events import ExpireTokens, RequestEvent
from kcore.controller.zk.zk_context import ControllerContext
from kcore.node.tokens import MUTATIONS_STRICT_FROM, OfTokens, throttled
from kcore.node.zk.admin.tokens import TokenNode, TokenRequest, TokenRules, expire_tokens, token_response
from kcore.node.zk.znode_steps import ZnodeSteps
from kcore.protocol_errors import ApiException
from kcore.schema.structure import Message


def on_token_request(context: ControllerContext, event: RequestEvent[OfTokens]) -> Steps[Message]:
    """Answers a token request with the controller's settings and mutation quotas."""
    config = context.config
    rules = TokenRules(
        config.delegation_token_secret_key,
        config.delegation_token_max_lifetime_ms,
        config.delegation_token_expiry_time_ms,
    )
    node = TokenNode(rules, context.new_uuid, context.passed_over, partial(_throttled, context, event))
    return (yield from token_response(node, TokenRequest(event.request, event.version, event.requester)))


def _throttled(context: ControllerContext, event: RequestEvent[OfTokens]) -> ZnodeSteps[Message | None]:
    """Counts a mutation; returns the error response if it exceeds the mutation quota, otherwise None."""
    quota = yield from quota_of(context, event, strict_from=MUTATIONS_STRICT_FROM)
    try:
        quota.record(1)
    except ApiException:
        return throttled(event.request, event.version, event.requester.principal, quota.throttle_time_ms)
    return None


def on_expire_tokens(context: ControllerContext, event: ExpireTokens) -> Steps[None]:
    """Deletes expired tokens, if the cluster has tokens."""
    if context.config.delegation_token_secret_key is not None:
        yield from expire_tokens(context.passed_over, event.wall_ms)
