"""Client quotas, stored by the cluster (KIP-546)."""

from kcore.schema.kinds import float64, int8, int16, int32
from kcore.schema.structure import Message, Struct, field


class ComponentData(Struct):
    """A filter for one part of an entity."""

    entity_type: str  # "user", "client-id" or "ip" (KIP-612).
    match_type: int8  # 0 this name, 1 the default, 2 any name.
    match: str | None = field(nullable="0+")  # The name if `match_type` is 0, else null.


class DescribeClientQuotasRequest(Message, api_key=48, versions="0-1", flexible="1+"):
    """An administrator asks for the quotas of the entities that match a filter."""

    components: list[ComponentData]
    strict: bool  # Excludes entities that have parts beyond those of the filter.


class EntityData(Struct):
    """One part of an entity: a user, a client id or an IP address."""

    entity_type: str
    entity_name: str | None = field(nullable="0+")  # Null for the default.


class ValueData(Struct):
    """A quota by name, such as "producer_byte_rate"."""

    key: str
    value: float64


class DescribeClientQuotasResponseEntryData(Struct, kafka_name="EntryData"):
    """An entity and its quotas."""

    entity: list[EntityData]
    values: list[ValueData]


class DescribeClientQuotasResponse(Message, api_key=48, versions="0-1", flexible="1+"):
    """The requested quotas."""

    throttle_time_ms: int32
    error_code: int16
    error_message: str | None = field(nullable="0+")
    entries: list[DescribeClientQuotasResponseEntryData] | None = field(nullable="0+")  # Null if there is an error.


class OpData(Struct):
    """A quota that changes."""

    key: str
    value: float64
    remove: bool


class AlterClientQuotasRequestEntryData(Struct, kafka_name="EntryData"):
    """An entity and the quotas that change."""

    entity: list[EntityData]
    ops: list[OpData]


class AlterClientQuotasRequest(Message, api_key=49, versions="0-1", flexible="1+"):
    """An administrator sets and removes quotas."""

    entries: list[AlterClientQuotasRequestEntryData]
    validate_only: bool  # Only checks the request.


class AlterClientQuotasResponseEntryData(Struct, kafka_name="EntryData"):
    """The result for one entity."""

    error_code: int16
    error_message: str | None = field(nullable="0+")
    entity: list[EntityData]


class AlterClientQuotasResponse(Message, api_key=49, versions="0-1", flexible="1+"):
    """An answer for each entity."""

    throttle_time_ms: int32
    entries: list[AlterClientQuotasResponseEntryData]
