"""Quotas."""

from kcore.schema.kinds import float64, int8, int16, int32
from kcore.schema.structure import Message, Struct, field


class ComponentData(Struct):
    """A part of DescribeClientQuotasRequest."""

    entity_type: str
    match_type: int8
    match: str | None = field(nullable="0+")


class DescribeClientQuotasRequest(Message, api_key=48, versions="0-1", flexible="1+"):
    """DescribeClientQuotasRequest, as Kafka has it."""

    components: list[ComponentData]
    strict: bool


class EntityData(Struct):
    """A part of DescribeClientQuotasResponse."""

    entity_type: str
    entity_name: str | None = field(nullable="0+")


class ValueData(Struct):
    """A part of DescribeClientQuotasResponse."""

    key: str
    value: float64


class DescribeClientQuotasResponseEntryData(Struct, kafka_name="EntryData"):
    """A part of DescribeClientQuotasResponse."""

    entity: list[EntityData]
    values: list[ValueData]


class DescribeClientQuotasResponse(Message, api_key=48, versions="0-1", flexible="1+"):
    """DescribeClientQuotasResponse, as Kafka has it."""

    throttle_time_ms: int32
    error_code: int16
    error_message: str | None = field(nullable="0+")
    entries: list[DescribeClientQuotasResponseEntryData] | None = field(nullable="0+")


class OpData(Struct):
    """A part of AlterClientQuotasRequest."""

    key: str
    value: float64
    remove: bool


class AlterClientQuotasRequestEntryData(Struct, kafka_name="EntryData"):
    """A part of AlterClientQuotasRequest."""

    entity: list[EntityData]
    ops: list[OpData]


class AlterClientQuotasRequest(Message, api_key=49, versions="0-1", flexible="1+"):
    """AlterClientQuotasRequest, as Kafka has it."""

    entries: list[AlterClientQuotasRequestEntryData]
    validate_only: bool


class AlterClientQuotasResponseEntryData(Struct, kafka_name="EntryData"):
    """A part of AlterClientQuotasResponse."""

    error_code: int16
    error_message: str | None = field(nullable="0+")
    entity: list[EntityData]


class AlterClientQuotasResponse(Message, api_key=49, versions="0-1", flexible="1+"):
    """AlterClientQuotasResponse, as Kafka has it."""

    throttle_time_ms: int32
    entries: list[AlterClientQuotasResponseEntryData]
