"""AlterClientQuotas and DescribeClientQuotas (KIP-546, KIP-612): quotas are in `/config/users`, `clients` and `ips`.

The znode of a user also has the user's SCRAM credentials; the quotas of a user's clients are below it.

Source: ZkAdminManager of 3.9.1.
"""

import math
from collections.abc import Iterable
from decimal import Decimal
from typing import Final, NamedTuple, TypeAlias

from kcore.errors import TableError
from kcore.metadata.zookeeper import znodes
from kcore.metadata.zookeeper.znode_names import DEFAULT, desanitized, is_znode_name, sanitized
from kcore.metadata.zookeeper.znode_operations import Create, Operation, OperationResult, SetData
from kcore.node.quotas import (
    CLIENT_ID,
    IP,
    OF_ADDRESSES,
    OF_CLIENTS,
    USER,
    Entity,
    Quotas,
    reason_no_entity,
    reason_no_value,
)
from kcore.node.zk.admin.configs import CHANGE_PATH
from kcore.node.zk.znode_quotas import ZnodeQuotas
from kcore.node.zk.znode_steps import (
    MOST_TRIES,
    ZnodeSteps,
    pause_after,
    read_children,
    read_node,
    read_nodes,
    write_nodes,
)
from kcore.protocol_errors import Errors
from kcore.schema.quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntryData,
    AlterClientQuotasResponse,
    AlterClientQuotasResponseEntryData,
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    DescribeClientQuotasResponseEntryData,
    EntityData,
    OpData,
    ValueData,
)
from kcore.schema.structure import Message

AT_ONCE: Final = 250  # Entries, parts of an entity or quotas of one part of an alteration: each takes up to 15 us.
EXACT, THE_DEFAULT, SPECIFIED = range(3)  # Kafka's codes of ComponentData.match_type: which entities a filter takes.
_PLAIN_FROM, _PLAIN_TO = 1e-3, 1e7  # Double.toString writes an exponent outside this range.
Refusal: TypeAlias = tuple[Errors, str]
Configs: TypeAlias = dict[str, str]


class Found(NamedTuple):
    """An entity with a znode under /config, and the settings in it."""

    entity: Entity
    configs: Configs


def alter(request: AlterClientQuotasRequest, rates: ZnodeQuotas | None = None) -> ZnodeSteps[Message]:
    """Alters all quotas of an entity, or none if one is invalid. `rates`: the controller's copy of mutation quotas."""
    entries = []
    for place, entry in enumerate(request.entries, 1):
        yield from pause_after(place, AT_ONCE)
        refusal = yield from _alter(rates, entry, validate_only=request.validate_only)
        error, message = refusal or (Errors.NONE, None)
        entity = []
        for number, each in enumerate(entry.entity, 1):
            yield from pause_after(number, AT_ONCE)
            entity.append(EntityData(entity_type=each.entity_type, entity_name=each.entity_name))
        entries.append(AlterClientQuotasResponseEntryData(error_code=error, error_message=message, entity=entity))
    return AlterClientQuotasResponse(entries=entries)


def _alter(
    rates: ZnodeQuotas | None, entry: AlterClientQuotasRequestEntryData, *, validate_only: bool
) -> ZnodeSteps[Refusal | None]:
    entity: dict[str, str | None] = {}
    for place, each in enumerate(entry.entity, 1):
        yield from pause_after(place, AT_ONCE)
        entity[each.entity_type] = each.entity_name
    if (reason := reason_no_entity(entity) or _reason_no_znode(entity)) is not None:
        return Errors.INVALID_REQUEST, reason
    changes = yield from _changes_of(entity, entry.ops)
    if isinstance(changes, str):
        return Errors.INVALID_REQUEST, changes
    path = _path_of(entity)
    for _ in range(MOST_TRIES):
        node = yield from read_node(f"{znodes.CONFIG}/{path}")
        try:
            configs = {} if node is None else znodes.decode_config(path, node.data)
        except TableError:
            configs = {}  # Kafka, too, treats an unreadable znode as empty.
        for key, text in changes.items():
            configs.pop(key, None)
            if text is not None:
                configs[key] = text
        if validate_only:
            return None
        data = znodes.encode_config(configs)
        above = [] if node is not None else _parents(path)
        written = (
            Create(f"{znodes.CONFIG}/{path}", data)
            if node is None
            else SetData(f"{znodes.CONFIG}/{path}", data, node.version)
        )
        note = Create(CHANGE_PATH, znodes.encode_config_change(path), sequential=True)
        outcomes = yield from write_nodes([*above, written, note])
        if outcomes[-2] is OperationResult.DONE:
            if rates is not None and rates.is_read and IP not in entity:
                rates.keep(entity, configs)
            return None
    return Errors.UNKNOWN_SERVER_ERROR, f"Other nodes changed these quotas during each of {MOST_TRIES} attempts."


def _changes_of(entity: Entity, ops: Iterable[OpData]) -> ZnodeSteps[dict[str, str | None] | str]:
    """The new text of each quota, None for one to remove; or the reason why a quota cannot have its value."""
    changes: dict[str, str | None] = {}
    known = _quotas_of(entity)
    for place, each in enumerate(ops, 1):
        yield from pause_after(place, AT_ONCE)
        changes.pop(each.key, None)  # The last change of a quota counts, and its place.
        if each.remove:
            changes[each.key] = None
        elif (reason := _wrong(entity, each.key, each.value)) is not None:
            return reason
        else:
            changes[each.key] = as_text(known[each.key] is not None, each.value)
    return changes


def _quotas_of(entity: Entity) -> Quotas:
    return OF_ADDRESSES if IP in entity else OF_CLIENTS


def _wrong(entity: Entity, key: str, value: float) -> str | None:
    """The reason why the quota cannot have the value, or None."""
    if (reason := reason_no_value(_quotas_of(entity), key, value)) is not None:
        return reason
    return None if math.isfinite(value) else f"Quota {key} must be a number"


def as_text(is_integer: bool, value: float) -> str:
    """The value as Kafka writes it into the znode (Double.toString)."""
    if is_integer:
        return str(int(value + 1e-6))
    if _PLAIN_FROM <= value < _PLAIN_TO:
        return repr(value)
    digits = Decimal(repr(value)).normalize().as_tuple()
    shown = "".join(map(str, digits.digits))
    exponent = len(shown) - 1 + int(digits.exponent)
    return f"{shown[0]}.{shown[1:] or '0'}E{exponent}"


def _name(name: str | None) -> str:
    return DEFAULT if name is None else sanitized(name)


def _reason_no_znode(entity: Entity) -> str | None:
    """The reason why the entity has no valid znode name, or why brokers would not find the znode; or None."""
    address = entity.get(IP)
    if address is not None and sanitized(address) != address:
        return f"{address} is not a valid IP or resolvable host."
    wrong = next((name for name in entity.values() if not is_znode_name(_name(name))), None)
    return None if wrong is None else f"No znode can be named {wrong!r}"


def _path_of(entity: Entity) -> str:
    """The path of an entity's quotas under /config."""
    if IP in entity:
        return f"ips/{_name(entity[IP])}"
    if USER not in entity:
        return f"clients/{_name(entity[CLIENT_ID])}"
    below = f"/clients/{_name(entity[CLIENT_ID])}" if CLIENT_ID in entity else ""
    return f"users/{_name(entity[USER])}{below}"


def _parents(path: str) -> list[Operation]:
    """The operations that create the parents of the znode of a user's client; the parents may be missing."""
    parts = path.split("/")
    return [Create(f"{znodes.CONFIG}/{'/'.join(parts[:count])}") for count in range(2, len(parts))]


def describe(request: DescribeClientQuotasRequest) -> ZnodeSteps[Message]:
    """The quotas of the entities that match all components; with `strict` an entity has no further parts."""
    if (refusal := _refusal(request.components)) is not None:
        return DescribeClientQuotasResponse(error_code=refusal[0], error_message=refusal[1], entries=None)
    components = {each.entity_type: each for each in request.components}
    found: list[Found] = []
    if IP not in components:
        found += yield from users_and_clients()
    if not {USER, CLIENT_ID} & components.keys():
        found += yield from _entities("ips", IP)
    entries = []
    for each in found:
        quotas = {key: value for key, value in each.configs.items() if key in _quotas_of(each.entity)}
        if quotas and _matches(each.entity, components, strict=request.strict):
            entries.append(_described(each.entity, quotas))
    return DescribeClientQuotasResponse(error_message=None, entries=entries)


def _refusal(components: Iterable[ComponentData]) -> Refusal | None:
    kinds = [each.entity_type for each in components]
    shown = {USER: "user", CLIENT_ID: "client", IP: "ip"}
    for place, kind in enumerate(kinds):
        if not kind:
            return Errors.INVALID_REQUEST, "Unexpected empty filter component entity type"
        if kind not in shown:
            return Errors.UNSUPPORTED_VERSION, f"Custom entity type '{kind}' not supported"
        if kind in kinds[:place]:
            return Errors.INVALID_REQUEST, f"Duplicate {shown[kind]} filter component entity type"
    if IP in kinds and len(kinds) > 1:
        why = "Invalid entity filter component combination, IP filter component should not be used with "
        return Errors.INVALID_REQUEST, f"{why}user or clientId filter component."
    wrong = next((each.match_type for each in components if each.match_type not in range(3)), None)
    return None if wrong is None else (Errors.INVALID_REQUEST, f"Unexpected match type: {wrong}")


def _matches(entity: Entity, components: dict[str, ComponentData], *, strict: bool) -> bool:
    for kind, component in components.items():
        if kind not in entity:
            return False
        wanted = component.match if component.match_type == EXACT else None
        if component.match_type != SPECIFIED and entity[kind] != wanted:
            return False
    return not strict or entity.keys() == components.keys()


def _described(entity: Entity, quotas: Configs) -> DescribeClientQuotasResponseEntryData:
    parts = [EntityData(entity_type=kind, entity_name=name) for kind, name in entity.items()]
    values = [ValueData(key=key, value=float(value)) for key, value in quotas.items() if _is_number(value)]
    return DescribeClientQuotasResponseEntryData(entity=parts, values=values)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def users_and_clients() -> ZnodeSteps[list[Found]]:
    """The settings of all users, clients, and clients of users."""
    users = yield from _entities("users", USER)
    found = [*users, *(yield from _entities("clients", CLIENT_ID))]
    for user in users:
        place = f"users/{_name(user.entity[USER])}/clients"
        found += [
            Found({**user.entity, **each.entity}, each.configs) for each in (yield from _entities(place, CLIENT_ID))
        ]
    return found


def _entities(place: str, kind: str) -> ZnodeSteps[list[Found]]:
    """The entities below a znode under /config, with their settings."""
    names = yield from read_children(f"{znodes.CONFIG}/{place}")
    paths = [f"{znodes.CONFIG}/{place}/{name}" for name in names]
    nodes = (yield from read_nodes(paths)) if paths else []
    found = []
    for name, path, node in zip(names, paths, nodes, strict=True):
        try:
            configs = {} if node is None else znodes.decode_config(path, node.data)
        except TableError:
            configs = {}
        found.append(Found({kind: None if name == DEFAULT else desanitized(name)}, configs))
    return found


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
