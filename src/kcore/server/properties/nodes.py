"""Reads the settings that controllers and brokers of a KRaft cluster share.

Source: AbstractKafkaConfig, MetadataLogConfig, StandardAuthorizer, DelegationTokenManagerConfigs of 4.3.1.
"""

from collections.abc import Mapping
from typing import Any, Final

from kcore.node.kraft.node_config import NodeConfig
from kcore.releases.known import RELEASES
from kcore.server.properties.values import SettingsError, boolean_of, read_all

AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
EVERYONE: Final = "allow.everyone.if.no.acl.found"
OF_AUTHORIZER: Final = ("super.users", EVERYONE)
_OF_NODE: Final = (
    "delegation.token.secret.key",
    "quota.window.num",
    "quota.window.size.seconds",
    "metadata.log.max.record.bytes.between.snapshots",
    "metadata.log.max.snapshot.interval.ms",
)


def node_fields(given: Mapping[str, str]) -> dict[str, Any]:
    """The fields of NodeConfig that server.properties has. SettingsError."""
    found = read_all(given, _OF_NODE)
    if EVERYONE in given:
        found["allow_everyone_if_no_acl_found"] = boolean_of(EVERYONE, given[EVERYONE])
    if authorizer := given.get("authorizer.class.name"):
        if authorizer != AUTHORIZER:
            raise SettingsError(f"authorizer.class.name={authorizer}: kcore has only {AUTHORIZER}")
        found["has_authorizer"] = True
    found["super_users"] = tuple(each.strip() for each in given.get("super.users", "").split(";") if each.strip())
    return {**found, "static_configs": dict(given)}


def node_config(node_id: int, cluster_id: str, release: str, fields: Mapping[str, Any]) -> NodeConfig:
    """The settings of a node of the cluster; `fields`: those of `node_fields`."""
    return NodeConfig(node_id, cluster_id, release, RELEASES[release].supported_features, **fields)
