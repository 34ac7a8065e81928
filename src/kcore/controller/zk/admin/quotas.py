"""The mutation quotas: controller_mutation_rate limits the partitions that a client may create and delete a second.

Requests with `validate_only` do not count. `node/zk/admin/quotas.py` alters and describes quotas. Source:
ControllerMutationQuotaManager, ZkAdminManager of 3.9.1.
"""

from kcore.controller.rules.mutation_quotas import MutationQuota
from kcore.controller.zk.effects import Steps
from kcore.controller.zk.events import RequestEvent
from kcore.controller.zk.zk_context import ControllerContext
from kcore.errors import TableError
from kcore.metadata.zookeeper import znodes
from kcore.node.zk.admin.quotas import entity_of, users_and_clients
from kcore.node.zk.znode_steps import ZnodeSteps, read_node
from kcore.protocol_errors import ApiException, Errors
from kcore.schema.structure import Message


def quota_of(
    context: ControllerContext, event: RequestEvent[Message], *, strict_from: int
) -> ZnodeSteps[MutationQuota]:
    """The quota of the request's user and client. It never refuses requests of versions before `strict_from`."""
    rates = context.mutation_rates
    if not rates.is_read:
        for each in (yield from users_and_clients()):
            rates.keep(each.entity, each.configs)
        rates.is_read = True
    user, client_id = event.requester.principal.name, event.requester.client_id
    is_strict = event.version >= strict_from
    return context.mutation_quotas.of(rates.of, user, client_id, context.now_ms, is_strict=is_strict)


def message_of(error: ApiException) -> str | None:
    """The error message of a response; None for an exceeded quota (ApiError.fromThrowable)."""
    return None if error.error is Errors.THROTTLING_QUOTA_EXCEEDED else str(error)


def on_quota_change(context: ControllerContext, path: str) -> Steps[None]:
    """Reads the quotas at a path under /config, which a notification named; ignores the paths of other settings."""
    entity = entity_of(path)
    if entity is None or not context.mutation_rates.is_read:
        return
    node = yield from read_node(f"{znodes.CONFIG}/{path}")
    try:
        configs = {} if node is None else znodes.decode_config(path, node.data)
    except TableError:
        configs = {}
    context.mutation_rates.keep(entity, configs)
