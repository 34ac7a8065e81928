"""The settings of AclAuthorizer, ZooKeeper mode's authorizer, read by their names in server.properties."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from kcore.protocol_errors import Errors


class AclAuthorizerSettings(NamedTuple):
    """`super_users` has principals such as "User:admin"."""

    super_users: frozenset[str] = frozenset()
    allow_everyone_if_no_acl_found: bool = False


ACL_AUTHORIZER: Final = "kafka.security.authorizer.AclAuthorizer"
AUTHORIZER_NAMES: Final = ("authorizer.class.name", "super.users", "allow.everyone.if.no.acl.found")


def acl_authorizer_settings(given: Mapping[str, str]) -> AclAuthorizerSettings | None:
    """The settings in a server.properties; None without an authorizer. InvalidConfigurationException for wrong ones."""
    kind = given.get("authorizer.class.name", "").strip()
    if not kind:
        return None
    if kind != ACL_AUTHORIZER:
        Errors.INVALID_CONFIG.raise_for(f"authorizer.class.name={kind}: kcore supports only {ACL_AUTHORIZER}")
    users = frozenset(each.strip() for each in given.get("super.users", "").split(";") if each.strip())
    if wrong := sorted(each for each in users if ":" not in each):
        Errors.INVALID_CONFIG.raise_for(f"super.users: {wrong[0]} is not a principal such as User:name")
    everyone = given.get("allow.everyone.if.no.acl.found", "false").strip().lower()
    if everyone not in ("true", "false"):
        Errors.INVALID_CONFIG.raise_for(f"allow.everyone.if.no.acl.found={everyone}: must be true or false")
    return AclAuthorizerSettings(users, everyone == "true")
