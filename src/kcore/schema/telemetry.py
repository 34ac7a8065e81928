"""Telemetry."""

from kcore.schema.kinds import int8, int16, int32
from kcore.schema.structure import Message, Struct
from kcore.types import Uuid


class GetTelemetrySubscriptionsRequest(Message, api_key=71, versions="0", flexible="0+"):
    """GetTelemetrySubscriptionsRequest, as Kafka has it."""

    client_instance_id: Uuid


class GetTelemetrySubscriptionsResponse(Message, api_key=71, versions="0", flexible="0+"):
    """GetTelemetrySubscriptionsResponse, as Kafka has it."""

    throttle_time_ms: int32
    error_code: int16
    client_instance_id: Uuid
    subscription_id: int32
    accepted_compression_types: list[int8]
    push_interval_ms: int32
    telemetry_max_bytes: int32
    delta_temporality: bool
    requested_metrics: list[str]


class PushTelemetryRequest(Message, api_key=72, versions="0", flexible="0+"):
    """PushTelemetryRequest, as Kafka has it."""

    client_instance_id: Uuid
    subscription_id: int32
    terminating: bool
    compression_type: int8
    metrics: bytes


class PushTelemetryResponse(Message, api_key=72, versions="0", flexible="0+"):
    """PushTelemetryResponse, as Kafka has it."""

    throttle_time_ms: int32
    error_code: int16


class ListClientMetricsResourcesRequest(Message, api_key=74, versions="0", flexible="0+"):
    """ListClientMetricsResourcesRequest, as Kafka has it."""


class ClientMetricsResource(Struct):
    """A part of ListClientMetricsResourcesResponse."""

    name: str


class ListClientMetricsResourcesResponse(Message, api_key=74, versions="0", flexible="0+"):
    """ListClientMetricsResourcesResponse, as Kafka has it."""

    throttle_time_ms: int32
    error_code: int16
    client_metrics_resources: list[ClientMetricsResource]
