"""controller_mutation_rate in ZooKeeper mode: the partitions that a user or client may create and delete a second.

Requests with `validate_only` do not count. Source: ZkAdminManager of 3.9.1.
"""

from kcore.controller.rules.mutation_quotas import MutationQuota
from kcore.controller.rules.quotas import CLIENT_ID, USER, Entity
from kcore.controller.zk.admin.quotas import users_and_clients
from kcore.controller.zk.effects import Steps, read_node
from kcore.controller.zk.events import RequestEvent
from kcore.controller.zk.zk_context import ControllerContext
from kcore.errors import TableError
from kcore.metadata.zookeeper import znodes
from kcore.metadata.zookeeper.znode_names import DEFAULT, desanitized, is_znode_name
from kcore.protocol_errors import ApiException, Errors
from kcore.schema.structure import Message


def quota_of(context: ControllerContext, event: RequestEvent[Message], *, strict_from: int) -> Steps[MutationQuota]:
    """The quota of the request's user and client. Versions before `strict_from` are never refused."""
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
    """Reads a quota again that a notification names by its path under /config; other settings are ignored."""
    entity = entity_of(path)
    if entity is None or not context.mutation_rates.is_read:
        return
    node = yield from read_node(f"{znodes.CONFIG}/{path}")
    try:
        configs = {} if node is None else znodes.decode_config(path, node.data)
    except TableError:
        configs = {}
    context.mutation_rates.keep(entity, configs)


def entity_of(path: str) -> Entity | None:
    """The entity of a path under /config: users/NAME, clients/NAME or users/NAME/clients/NAME; None for others."""
    parts = path.split("/")
    if not all(map(is_znode_name, parts)):
        return None
    names = [None if name == DEFAULT else desanitized(name) for name in parts[1::2]]
    match parts[::2], names:
        case ["users"], [user]:
            return {USER: user}
        case ["clients"], [client_id]:
            return {CLIENT_ID: client_id}
        case ["users", "clients"], [user, client_id]:
            return {USER: user, CLIENT_ID: client_id}
    return None
