"""ACLs in znodes, both ways: one znode for each resource, and notifications that a resource's entries changed.

Source: ZkAclStore, ZkAclChangeStore and AclEntry of 3.9.1. Decoders raise TableError with the path.
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
    """An entry with its resource; codes are Kafka's."""

    resource_type: int
    pattern_type: int
    resource_name: str
    principal: str
    host: str
    operation: int
    permission_type: int


def _pascal(name: str) -> str:
    """SecurityUtils.toPascalCase"""
    return "".join(part.capitalize() for part in name.split("_"))


_TYPE_NAMES: Final = {code: _pascal(name) for code, name in RESOURCE_TYPES.items()}
_OPERATION_NAMES: Final = {code: _pascal(name) for code, name in OPERATIONS.items()}
_PERMISSION_NAMES: Final = {code: _pascal(name) for code, name in PERMISSIONS.items()}
# The znodes that are there as soon as ACLs are used, in this order (KafkaZkClient.createAclPaths).
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
    """Of a resource's entries (ResourceZNode)."""
    resource_type, pattern_type, name = resource
    return f"{ROOTS[pattern_type]}/{_TYPE_NAMES[resource_type]}/{name}"


def resource_text(resource: Resource) -> str:
    """A resource for a line of the log."""
    resource_type, pattern_type, name = resource
    return f"{RESOURCE_TYPES[resource_type]} {PATTERN_TYPES[pattern_type]} {name!r:.100}"


def encode_acls(bindings: Iterable[AclBinding]) -> bytes:
    """The entries of one resource, in the order given (AclEntry.toJsonCompatibleMap)."""
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
    """A notification about a resource: the form of LITERAL patterns is older than pattern types."""
    resource_type, pattern_type, name = resource
    if pattern_type == LITERAL:
        return f"{RESOURCE_TYPES[resource_type]}:{name}".encode()
    kind, pattern = RESOURCE_TYPES[resource_type], PATTERN_TYPES[pattern_type]
    return encode_json({"version": _VERSION, "resourceType": kind, "name": name, "patternType": pattern})


def decode_acl_change(path: str, pattern_type: int, data: bytes) -> Resource:
    """The resource that a notification below `CHANGES[pattern_type]` names."""
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
    """The code of a name in either spelling: CLUSTER_ACTION, or ClusterAction as znodes have it."""
    for code, each in names.items():
        if name.upper() == each or name == _pascal(each):
            return code
    raise fault(path, f"{name[:40]!r} is none of {', '.join(names.values())}")
