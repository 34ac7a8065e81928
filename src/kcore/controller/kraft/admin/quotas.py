"""AlterClientQuotas (KIP-546): quotas of users, clients and addresses.

Source: ClientQuotaControlManager, AlterClientQuotasRequest, QuotaConfig.
"""

import math
from typing import Final

from kcore.controller.kraft.decision import Decision, Steps, Versioned
from kcore.controller.kraft.kraft_context import ControllerContext, RequestInfo
from kcore.java_hash import hash_map_order, string_hash
from kcore.metadata.acl_codes import ALTER_CONFIGS
from kcore.metadata.image.image_state import QuotaEntity
from kcore.node.error_responses import DEFAULT_MESSAGES, refused
from kcore.node.quotas import IP, OF_ADDRESSES, OF_CLIENTS, Entity, reason_no_entity, reason_no_value
from kcore.protocol_errors import Errors
from kcore.schema import metadata_records_settings as settings
from kcore.schema.quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntryData,
    AlterClientQuotasResponse,
    AlterClientQuotasResponseEntryData,
    EntityData,
)

ENTRIES_AT_ONCE: Final = 250  # Entities of one part of a decision: an entity takes some 20 us.
_NOT_AUTHORIZED: Final = DEFAULT_MESSAGES[Errors.CLUSTER_AUTHORIZATION_FAILED]


def on_alter_client_quotas(context: ControllerContext, request: AlterClientQuotasRequest, info: RequestInfo) -> Steps:
    """Change the quotas of each entity; one invalid quota refuses the entity. Needs ALTER_CONFIGS of the cluster.

    An entity that the request names twice is refused, but the changes of its first entry are made, as in Kafka.
    """
    if not context.is_authorized(info, ALTER_CONFIGS):
        return Decision(refused(request, Errors.CLUSTER_AUTHORIZATION_FAILED, _NOT_AUTHORIZED))
    if request.entries:
        context.call_controller()
    results: dict[QuotaEntity, tuple[Entity, str | None]] = {}
    hashes: dict[QuotaEntity, int] = {}
    records: list[Versioned] = []
    for place, entry in enumerate(request.entries, 1):
        if place % ENTRIES_AT_ONCE == 0:
            yield
        entity = _entity_of(entry)
        key = _key_of(entity)
        hashes[key] = _hash_of(entity)
        keys = [each.key for each in entry.ops]
        if key in results or len(set(keys)) < len(keys):
            results[key] = entity, f"Ignoring duplicate entity {_shown(entity)}"
            continue
        found = _decide(context, entity, entry)
        results[key] = entity, found if isinstance(found, str) else None
        records += [] if isinstance(found, str) else found
    response = AlterClientQuotasResponse(entries=[])
    for place, key in enumerate(hash_map_order(results, hashes.__getitem__), 1):
        if place % ENTRIES_AT_ONCE == 0:
            yield
        response.entries.append(_answer(*results[key]))
    return Decision(response, () if request.validate_only else records)


def _entity_of(entry: AlterClientQuotasRequestEntryData) -> Entity:
    given: Entity = {each.entity_type: each.entity_name for each in entry.entity}
    return {each: given[each] for each in hash_map_order(given, capacity=len(entry.entity))}


def _key_of(entity: Entity) -> QuotaEntity:
    return tuple(sorted(entity.items(), key=lambda pair: (pair[0], pair[1] or "")))


def _hash_of(entity: Entity) -> int:
    """ClientQuotaEntity.hashCode."""
    pairs = (string_hash(kind) ^ (0 if name is None else string_hash(name)) for kind, name in entity.items())
    return (31 + sum(pairs)) & 0xFFFFFFFF


def _shown(entity: Entity) -> str:
    """ClientQuotaEntity.toString."""
    inner = ", ".join(f"{kind}={'null' if name is None else name}" for kind, name in entity.items())
    return f"ClientQuotaEntity(entries={{{inner}}})"


def _answer(entity: Entity, refusal: str | None) -> AlterClientQuotasResponseEntryData:
    return AlterClientQuotasResponseEntryData(
        error_code=Errors.NONE if refusal is None else Errors.INVALID_REQUEST,
        error_message=refusal,
        entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity.items()],
    )


def _decide(
    context: ControllerContext, entity: Entity, entry: AlterClientQuotasRequestEntryData
) -> list[Versioned] | str:
    """The records for one entity, or its error message (alterClientQuotaEntity)."""
    if (reason := reason_no_entity(entity)) is not None:
        return reason
    known = OF_ADDRESSES if IP in entity else OF_CLIENTS
    must_be_finite = context.config.node.rules.refuses_infinite_quotas
    values = {each.key: None if each.remove else each.value for each in entry.ops}
    current = context.image.quotas.get(_key_of(entity), {})
    records = []
    for key in hash_map_order(values, capacity=len(entry.ops)):
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
