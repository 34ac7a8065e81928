"""Encodes and decodes the znodes of ACLs: one for each resource, and notifications of changed resources.

Decoders raise TableError with the path. Source: ZkAclStore, ZkAclChangeStore and AclEntry of 3.9.1.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple, TypeAlias

from kcore.metadata.acl_codes import LITERAL, OPERATIONS, PATTERN_TYPES, PERMISSIONS, PREFIXED, RESOURCE_TYPES
from kcore.metadata.zookeeper.znode_json import Fields, encode_json, fault

ROOTS: Final = {LITERAL: "/kafka-acl", PREFIXED: "/kafka-acl-extended/prefixed"}  # By pattern type.
CHANGES: Final = {LITERAL: "/kafka-acl-changes", PREFIXED: "/kafka-acl-extended-changes"}
CHANGE_PREFIX: Final = "acl_changes_"
_VERSION: Final = 1

Resource: TypeAlias = tuple[int, int, str]  # Type, pattern type and name.


class AclBinding(NamedTuple):
    """An ACL entry with its resource, in Kafka's codes."""

    resource_type: int
    pattern_type: int
    resource_name: str
    principal: str
    host: str
    operation: int
    permission_type: int


def _pascal(name: str) -> str:
    """CLUSTER_ACTION as ClusterAction (SecurityUtils.toPascalCase)."""
    return "".join(part.capitalize() for part in name.split("_"))


_TYPE_NAMES: Final = {code: _pascal(name) for code, name in RESOURCE_TYPES.items()}
_OPERATION_NAMES: Final = {code: _pascal(name) for code, name in OPERATIONS.items()}
_PERMISSION_NAMES: Final = {code: _pascal(name) for code, name in PERMISSIONS.items()}
# The znodes that a node with an authorizer creates, in this order (KafkaZkClient.createAclPaths).
PERSISTENT_PATHS: Final = (
    *(f"{root}/{each}" for root in ROOTS.values() for each in _TYPE_NAMES.values()),
    *CHANGES.values(),
)


def types_and_paths() -> list[tuple[int, int, str]]:
    """Resource type, pattern type and the znode above the resources of that kind."""
    return [
        (code, pattern_type, f"{root}/{name}")
        for pattern_type, root in ROOTS.items()
        for code, name in _TYPE_NAMES.items()
    ]


def resource_path(resource: Resource) -> str:
    """The path of a resource's entries (ResourceZNode)."""
    resource_type, pattern_type, name = resource
    return f"{ROOTS[pattern_type]}/{_TYPE_NAMES[resource_type]}/{name}"


def resource_text(resource: Resource) -> str:
    """A resource in a log line."""
    resource_type, pattern_type, name = resource
    return f"{RESOURCE_TYPES[resource_type]} {PATTERN_TYPES[pattern_type]} {name!r:.100}"


def encode_acls(bindings: Iterable[AclBinding]) -> bytes:
    """The znode with the entries of one resource, in this order (AclEntry.toJsonCompatibleMap)."""
    entries = [
        {
            "principal": each.principal,
            "permissionType": _PERMISSION_NAMES[each.permission_type],
            "host": each.host,
            "operation": _OPERATION_NAMES[each.operation],
        }
        for each in bindings
    ]
    return encode_json({"acls": entries, "version": _VERSION})


def decode_acls(resource: Resource, data: bytes) -> tuple[AclBinding, ...]:
    """The entries of a resource, each once; a znode without data has none (AclEntry.fromBytes)."""
    if not data:
        return ()
    path = resource_path(resource)
    fields = Fields.of(path, data)
    if (version := fields.integer("version")) != _VERSION:
        raise fault(path, f"version {version}")
    found: dict[AclBinding, None] = {}
    for each in fields.objects("acls"):
        operation = _code(path, each.text("operation"), OPERATIONS)
        permission = _code(path, each.text("permissionType"), PERMISSIONS)
        found[AclBinding(*resource, each.text("principal"), each.text("host"), operation, permission)] = None
    return tuple(found)


def encode_acl_change(resource: Resource) -> bytes:
    """The notification of a changed resource; LITERAL patterns have an older form than other pattern types."""
    resource_type, pattern_type, name = resource
    if pattern_type == LITERAL:
        return f"{RESOURCE_TYPES[resource_type]}:{name}".encode()
    kind, pattern = RESOURCE_TYPES[resource_type], PATTERN_TYPES[pattern_type]
    return encode_json({"version": _VERSION, "resourceType": kind, "name": name, "patternType": pattern})


def decode_acl_change(path: str, pattern_type: int, data: bytes) -> Resource:
    """The resource in a notification below `CHANGES[pattern_type]`."""
    if pattern_type == LITERAL:
        kind, colon, name = data.decode(errors="replace").partition(":")
        if not colon:
            raise fault(path, "no resource type")
        return _code(path, kind, RESOURCE_TYPES), LITERAL, name
    fields = Fields.of(path, data)
    if (version := fields.integer("version")) > _VERSION:
        raise fault(path, f"version {version}")
    resource_type = _code(path, fields.text("resourceType"), RESOURCE_TYPES)
    return resource_type, _code(path, fields.text("patternType"), PATTERN_TYPES), fields.text("name")


def _code(path: str, name: str, names: dict[int, str]) -> int:
    """The code of a name, in either spelling: CLUSTER_ACTION, or ClusterAction as in znodes."""
    for code, each in names.items():
        if name.upper() == each or name == _pascal(each):
            return code
    raise fault(path, f"{name[:40]!r} is not one of {', '.join(names.values())}")
