"""Clients push their metrics to brokers (KIP-714); a configuration resource selects metrics and clients."""

from kcore.schema.kinds import int8, int16, int32
from kcore.schema.structure import Message, Struct
from kcore.types import Uuid


class GetTelemetrySubscriptionsRequest(Message, api_key=71, versions="0", flexible="0+"):
    """A client asks for the broker's metrics subscription."""

    client_instance_id: Uuid  # Zero in the first request; the broker then assigns an id.


class GetTelemetrySubscriptionsResponse(Message, api_key=71, versions="0", flexible="0+"):
    """The metrics that the client should push, the interval, and the format."""

    throttle_time_ms: int32
    error_code: int16
    client_instance_id: Uuid
    subscription_id: int32  # Changes with the subscription; the broker refuses a push with an old id.
    accepted_compression_types: list[int8]  # The preferred type first.
    push_interval_ms: int32
    telemetry_max_bytes: int32
    delta_temporality: bool  # If True, the client sends counters as differences to its last push.
    requested_metrics: list[str]  # Prefixes of metric names: no prefix for none, one empty prefix for all.


class PushTelemetryRequest(Message, api_key=72, versions="0", flexible="0+"):
    """A client sends its metrics to the broker."""

    client_instance_id: Uuid
    subscription_id: int32
    terminating: bool  # The client's last push.
    compression_type: int8  # As in record batches: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.
    metrics: bytes  # OpenTelemetry's MetricsData, perhaps compressed.


class PushTelemetryResponse(Message, api_key=72, versions="0", flexible="0+"):
    """The result of the push."""

    throttle_time_ms: int32
    error_code: int16


class ListClientMetricsResourcesRequest(Message, api_key=74, versions="0", flexible="0+"):
    """An administrator asks for the names of client metrics resources (KIP-1000)."""


class ClientMetricsResource(Struct):
    """The name of one resource."""

    name: str


class ListClientMetricsResourcesResponse(Message, api_key=74, versions="0", flexible="0+"):
    """The names of client metrics resources. Since 4.1 ListConfigResources has this API key."""

    throttle_time_ms: int32
    error_code: int16
    client_metrics_resources: list[ClientMetricsResource]
