"""AlterClientQuotas (KIP-546): quotas of users, clients and addresses.

Source: ClientQuotaControlManager, AlterClientQuotasRequest, QuotaConfig.
"""

import math
from collections.abc import Generator, Hashable
from typing import Final

from kcore.controller.kraft.decision import AT_ONCE, Decision, Steps, Versioned
from kcore.controller.kraft.kraft_context import ControllerContext, RequestInfo
from kcore.java_hash import hash_map_order, hash_map_ordering, string_hash
from kcore.metadata.acl_codes import ALTER_CONFIGS
from kcore.metadata.image.image_state import QuotaEntity
from kcore.node.error_responses import DEFAULT_MESSAGES, refused
from kcore.node.quotas import IP, OF_ADDRESSES, OF_CLIENTS, TYPES, Entity, reason_no_entity, reason_no_value
from kcore.protocol_errors import Errors
from kcore.schema import metadata_records_settings as settings
from kcore.schema.quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntryData,
    AlterClientQuotasResponse,
    AlterClientQuotasResponseEntryData,
    EntityData,
)
from kcore.steps import Work

ENTRIES_AT_ONCE: Final = 250  # Entities of one part of a decision: an entity takes some 20 us.
_PARTS_OF_AN_ENTRY: Final = 8  # An entity's types and quotas: so many take as long as one more entity.
_NOT_AUTHORIZED: Final = DEFAULT_MESSAGES[Errors.CLUSTER_AUTHORIZATION_FAILED]


def on_alter_client_quotas(context: ControllerContext, request: AlterClientQuotasRequest, info: RequestInfo) -> Steps:
    """Change the quotas of each entity; one invalid quota refuses the entity. Needs ALTER_CONFIGS of the cluster.

    An entity that the request names twice is refused, but the changes of its first entry are made, as in Kafka.
    """
    if not context.is_authorized(info, ALTER_CONFIGS):
        return Decision(refused(request, Errors.CLUSTER_AUTHORIZATION_FAILED, _NOT_AUTHORIZED))
    if request.entries:
        context.call_controller()
    results: dict[Hashable, tuple[Entity, str | None]] = {}
    hashes: dict[Hashable, int] = {}
    records, work = list[Versioned](), Work(ENTRIES_AT_ONCE)
    for entry in request.entries:
        yield from work.add(1 + (len(entry.entity) + len(entry.ops)) // _PARTS_OF_AN_ENTRY)
        entity = yield from _entity_of(entry)
        hash_code = yield from _hash_of(entity)
        key = _key_of(entity, hash_code)
        hashes[key] = hash_code
        if (yield from _repeats_a_quota(entry)) or key in results:
            results[key] = entity, f"Ignoring duplicate entity {_shown(entity)}"
            continue
        found = yield from _decide(context, entity, entry)
        results[key] = entity, found if isinstance(found, str) else None
        records += [] if isinstance(found, str) else found
    response = AlterClientQuotasResponse(entries=[])
    for key in hash_map_order(results, hashes.__getitem__):
        yield from work.add()
        response.entries.append((yield from _answer(*results[key])))
    return Decision(response, () if request.validate_only else records)


def _entity_of(entry: AlterClientQuotasRequestEntryData) -> Generator[None, None, Entity]:
    given, entity = dict[str, str | None](), dict[str, str | None]()
    for place, each in enumerate(entry.entity, 1):
        if place % AT_ONCE == 0:
            yield
        given[each.entity_type] = each.entity_name
    for place, kind in enumerate((yield from hash_map_ordering(given, capacity=len(entry.entity))), 1):
        if place % AT_ONCE == 0:
            yield
        entity[kind] = given[kind]
    return entity


def _repeats_a_quota(entry: AlterClientQuotasRequestEntryData) -> Generator[None, None, bool]:
    seen: set[str] = set()
    for place, each in enumerate(entry.ops, 1):
        if place % AT_ONCE == 0:
            yield
        seen.add(each.key)
    return len(seen) < len(entry.ops)


class _LargeKey:
    """The key of an entity with so many types that sorting or hashing them again takes long."""

    def __init__(self, entity: Entity, hash_code: int) -> None:
        self._entity, self._hash_code = entity, hash_code

    def __hash__(self) -> int:
        return self._hash_code

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _LargeKey) and self._entity == other._entity


def _key_of(entity: Entity, hash_code: int) -> Hashable:
    """A key that equal entities share."""
    return _sorted(entity) if len(entity) <= len(TYPES) else _LargeKey(entity, hash_code)


def _sorted(entity: Entity) -> QuotaEntity:
    return tuple(sorted(entity.items(), key=lambda pair: (pair[0], pair[1] or "")))


def _hash_of(entity: Entity) -> Generator[None, None, int]:
    """ClientQuotaEntity.hashCode."""
    total = 31
    for place, (kind, name) in enumerate(entity.items(), 1):
        if place % AT_ONCE == 0:
            yield
        total += string_hash(kind) ^ (0 if name is None else string_hash(name))
    return total & 0xFFFFFFFF


def _shown(entity: Entity) -> str:
    """ClientQuotaEntity.toString."""
    inner = ", ".join(f"{kind}={'null' if name is None else name}" for kind, name in entity.items())
    return f"ClientQuotaEntity(entries={{{inner}}})"


def _answer(entity: Entity, refusal: str | None) -> Generator[None, None, AlterClientQuotasResponseEntryData]:
    answer = AlterClientQuotasResponseEntryData(
        error_code=Errors.NONE if refusal is None else Errors.INVALID_REQUEST, error_message=refusal, entity=[]
    )
    for place, (kind, name) in enumerate(entity.items(), 1):
        if place % AT_ONCE == 0:
            yield
        answer.entity.append(EntityData(entity_type=kind, entity_name=name))
    return answer


def _decide(
    context: ControllerContext, entity: Entity, entry: AlterClientQuotasRequestEntryData
) -> Generator[None, None, list[Versioned] | str]:
    """The records for one entity, or its error message (alterClientQuotaEntity)."""
    if (reason := reason_no_entity(entity)) is not None:
        return reason
    known = OF_ADDRESSES if IP in entity else OF_CLIENTS
    must_be_finite = context.config.node.rules.refuses_infinite_quotas
    values = {each.key: None if each.remove else each.value for each in entry.ops}
    current = context.image.quotas.get(_sorted(entity), {})
    records = []
    for key in (yield from hash_map_ordering(values, capacity=len(entry.ops))):
        value = values[key]
        if value is None:
            if key in current:
                records.append(_record(entity, key, 0.0, remove=True))
        elif (reason := reason_no_value(known, key, value, must_be_finite=must_be_finite)) is not None:
            return reason
        elif key not in current or not _is_same(current[key], value):
            records.append(_record(entity, key, value, remove=False))
    return records


def _is_same(left: float, right: float) -> bool:
    """True if the numbers are equal or both NaN (Double.equals)."""
    return left == right or (math.isnan(left) and math.isnan(right))


def _record(entity: Entity, key: str, value: float, *, remove: bool) -> Versioned:
    parts = [
        settings.EntityData(entity_type=kind, entity_name=entity[kind]) for kind in hash_map_order(entity, capacity=4)
    ]
    return Versioned(settings.ClientQuotaRecord(entity=parts, key=key, value=value, remove=remove))
