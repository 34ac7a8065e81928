"""Reads a controller's page of metrics for `kcore top`: the page of kcore or of Kafka's JMX exporter."""

from http.client import HTTPException
from typing import Final
from urllib.error import URLError
from urllib.request import ProxyHandler, build_opener

from kcore.errors import DisconnectedError, NetworkError
from kcore.extras import needs
from kcore.measure.watch.frame import Samples

with needs("metrics"):
    from prometheus_client.parser import text_string_to_metric_families

MOST_BYTES: Final = 16 << 20
TIMEOUT_S: Final = 3.0
KNOWN: Final = ("kcore_", "kafka_controller_", "kafka_server_", "process_")  # Prefixes of the metrics that are read.


def scrape(url: str) -> Samples:
    """Reads a controller's samples; NetworkError if that fails. Not for an event loop: it takes up to `TIMEOUT_S`."""
    opener = build_opener(ProxyHandler({}))
    try:
        with opener.open(url, timeout=TIMEOUT_S) as answer:
            text = answer.read(MOST_BYTES + 1)
    except (URLError, HTTPException, OSError, ValueError) as error:
        why = getattr(error, "reason", None) or error
        raise DisconnectedError(f"no metrics from {url}: {why}") from error
    if len(text) > MOST_BYTES:
        raise NetworkError(f"{url} has more than {MOST_BYTES:,} bytes")
    try:
        return samples_of(text.decode())
    except ValueError as error:
        raise NetworkError(f"{url} is no page of metrics: {error}") from error


def samples_of(text: str) -> Samples:
    """The KNOWN samples of a page, without histogram buckets. ValueError if the text is not a page of metrics."""
    found: dict[tuple[str, str], float] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.name.startswith(KNOWN) and not sample.name.endswith("_bucket") and len(sample.labels) <= 1:
                found[sample.name, next(iter(sample.labels.values()), "")] = sample.value
    return found
