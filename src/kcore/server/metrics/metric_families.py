"""Makes `prometheus-client` families of counters, for the metrics page."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Final, TypeAlias

from kcore.extras import needs
from kcore.net.connection_metrics import Metrics
from kcore.net.durations import BOUNDS_S, Duration
from kcore.net.versions import api_name
from kcore.protocol_errors import Errors
from kcore.schema.index import REQUESTS
from kcore.server.metrics.watched_loop import WatchedLoop

with needs("metrics"):
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

Family: TypeAlias = Metric
Collect: TypeAlias = Callable[[], Awaitable[Sequence[Family | Callable[[], Family]]]]
"""Returns a server's families, on the event loop. The page's thread calls functions in the result: these are slow."""
READY: Final = "kcore_ready"
MS: Final = 1000.0  # Kafka's histograms count milliseconds.


def gauge(name: str, what: str, value: float) -> Family:
    """A gauge: the current value."""
    return GaugeMetricFamily(name, what, value=value)


def ready(is_ready: bool) -> Family:
    """A gauge: whether the server does its work, which is the status of `/ready`."""
    return gauge(READY, "1 if the server is ready: the status of /ready.", is_ready)


def gauges(name: str, what: str, label: str, values: Mapping[str, float]) -> Family:
    """A gauge with the current values by the value of a label."""
    family = GaugeMetricFamily(name, what, labels=[label])
    for key, value in values.items():
        family.add_metric([key], value)
    return family


def client_gauges(name: str, what: str, values: Mapping[tuple[str, str], float]) -> Family:
    """A gauge with the current values by user and client id; an empty one stands for all."""
    family = GaugeMetricFamily(name, what, labels=["user", "client_id"])
    for key, value in values.items():
        family.add_metric(key, value)
    return family


def counter(name: str, what: str, value: float) -> Family:
    """A counter since the start of the process; the page adds `_total` to the name."""
    return CounterMetricFamily(name, what, value=value)


def counters(name: str, what: str, label: str, values: Mapping[str, float]) -> Family:
    """A counter since the start of the process, by the value of a label."""
    family = CounterMetricFamily(name, what, labels=[label])
    for key, value in values.items():
        family.add_metric([key], value)
    return family


def histogram(name: str, what: str, duration: Duration, scale: float = 1.0) -> Family:
    """A histogram of durations: their number, their sum, and the number up to each bound, in seconds times `scale`."""
    return HistogramMetricFamily(name, what, buckets=_buckets(duration, scale), sum_value=duration.total_s * scale)


def histograms(name: str, what: str, label: str, durations: Mapping[str, Duration]) -> Family:
    """A histogram of durations by the value of a label, in seconds."""
    family = HistogramMetricFamily(name, what, labels=[label])
    for key, duration in durations.items():
        family.add_metric([key], _buckets(duration, 1.0), duration.total_s)
    return family


def _buckets(duration: Duration, scale: float) -> list[tuple[str, float]]:
    bounds = [*(f"{bound * scale:g}" for bound in BOUNDS_S), "+Inf"]
    return list(zip(bounds, map(float, accumulate(duration.by_length)), strict=True))


def longest(name: str, what: str, label: str, durations: Mapping[str, Duration], at_s: float) -> Iterable[Family]:
    """Two gauges in seconds: the longest duration since the start, and the longest of the last 30 to 60 s."""
    yield gauges(f"{name}_longest_seconds", f"{what}: the longest since the start.", label, _longest(durations))
    recent = {key: duration.recent.longest(at_s) for key, duration in durations.items()}
    yield gauges(f"{name}_longest_recent_seconds", f"{what}: the longest of the last 30 to 60 s.", label, recent)


def _longest(durations: Mapping[str, Duration]) -> dict[str, float]:
    return {key: duration.longest_s for key, duration in durations.items()}


def of_loop(loop: WatchedLoop | None, at_s: float) -> Iterable[Family]:
    """Metrics of the event loop: how long its turns take."""
    if loop is None:
        return
    what = "Turns of the event loop: no socket is read while one lasts"
    yield histogram("kcore_loop_turn_seconds", f"{what}.", loop.turns)
    yield gauge("kcore_loop_turn_longest_seconds", f"{what}: the longest since the start.", loop.turns.longest_s)
    recent_s = loop.turns.recent.longest(at_s)
    yield gauge("kcore_loop_turn_longest_recent_seconds", f"{what}: the longest of the last 30 to 60 s.", recent_s)
    yield counter("kcore_loop_idle_seconds", "Time that the event loop waited for something to do.", loop.idle_s)


def of_network(network: Metrics) -> Iterable[Family]:
    """Metrics of the connections and requests of a server's clients."""
    opened, closed = network.connections_opened, network.connections_closed
    yield gauge("kcore_connections", "Connections of clients that are open.", opened - closed)
    yield counter("kcore_connections_opened", "Connections of clients that were opened.", opened)
    text = "Connections that ended by an error, were refused or were evicted."
    yield counters("kcore_connections_ended_by", text, "reason", network.errors)
    yield counter("kcore_received_bytes", "Bytes from clients.", network.bytes_in)
    yield counter("kcore_sent_bytes", "Bytes to clients.", network.bytes_out)
    yield counter("kcore_requests", "Requests of all APIs that the server began to handle.", network.requests)
    text = "Time from the last byte of a request to its response, with the time that the request waited."
    yield histograms("kcore_request_seconds", text, "api", {_api(key): each for key, each in network.apis.items()})
    yield _request_errors(network)


def _request_errors(network: Metrics) -> Family:
    family = CounterMetricFamily("kcore_request_errors", "Responses with an error code.", labels=["api", "error"])
    for (api_key, code), count in network.api_errors.items():
        family.add_metric([_api(api_key), Errors.of(code).name], count)
    return family


def _api(api_key: int) -> str:
    return api_name(REQUESTS[api_key]) if api_key in REQUESTS else str(api_key)
