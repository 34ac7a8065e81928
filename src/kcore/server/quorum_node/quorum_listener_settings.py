"""Reads from a controller's server.properties which clients may connect to a quorum node without a controller.

Such a node has no ACLs: only `super.users` have the rights of a node of the quorum. Source: ControllerApis, which
requires CLUSTER_ACTION for raft requests.
"""

from collections.abc import Mapping
from typing import NamedTuple

from kcore.net.limits.connection_limits import Limits
from kcore.net.security.listener_security import ListenerSecurity
from kcore.server.properties.limits import limits_of
from kcore.server.properties.security import security_of
from kcore.server.properties.values import SettingsError, checked, listed
from kcore.server.quorum_node.quorum_request_handlers import LIMITS


class QuorumListenerSettings(NamedTuple):
    """Settings of the listener of one node."""

    security: ListenerSecurity = ListenerSecurity()
    super_users: frozenset[str] | None = None  # Principals that may send more than ApiVersions; None: all.
    limits: Limits = LIMITS


def quorum_listener_settings(properties: Mapping[str, str], listener: str) -> QuorumListenerSettings:
    """The settings of the listener with this name. SettingsError with one line that shows no password."""
    given = checked(properties, has_security=True)
    names = listed(given, "controller.listener.names")
    if names and listener not in names:
        raise SettingsError(f"controller.listener.names={','.join(names)}: {listener} is not among them")
    security = security_of(given, listener)
    users = frozenset(each.strip() for each in given.get("super.users", "").split(";") if each.strip())
    if wrong := sorted(each for each in users if ":" not in each):
        raise SettingsError(f"super.users: {wrong[0]} is not a principal such as User:name")
    knows_clients = security.mechanisms or (security.tls is not None and security.tls.client_auth != "none")
    if not users and (knows_clients or given.get("authorizer.class.name")):
        raise SettingsError("super.users is missing: list the principals that the nodes of the quorum use")
    return QuorumListenerSettings(security, users or None, limits_of(given, listener, LIMITS))
