"""The quotas on the bytes of clients at a broker: producer_byte_rate and consumer_byte_rate (KIP-13).

A producer above its quota gets its response with a throttle time. A consumer above a quota gets an empty response,
which does not count. The broker reads no request of the client until the throttle time has passed. If the request quota
is exceeded, too, the longer throttle time counts.

Source: KafkaApis.handleProduceRequest and handleFetchRequest, ClientQuotaManager of 4.3.1.
"""

import math
from collections.abc import Callable

from kcore.net.request_context import RequestContext
from kcore.node.rate_quotas import CONSUMER_BYTE_RATE, PRODUCER_BYTE_RATE, RateQuotas
from kcore.schema.structure import Message
from kcore.server.security.request_throttle import RequestThrottle, with_throttle_time
from kcore.steps import Steps


class ByteQuotas:
    """The quotas on bytes of one broker."""

    def __init__(self, requests: RequestThrottle) -> None:
        """`requests`: the request quotas of the broker, whose windows and clock these quotas share."""
        self.requests = requests
        windows, window_ms = requests.windows
        self.produce = RateQuotas(PRODUCER_BYTE_RATE, windows=windows, window_ms=window_ms)
        self.fetch = RateQuotas(CONSUMER_BYTE_RATE, windows=windows, window_ms=window_ms)

    def produced(self, context: RequestContext, response: Message | None) -> None:
        """Counts a Produce request, sets the throttle time of its response, and mutes the client for this time.

        `response`: None with acks=0.
        """
        throttled_ms = context.session.mute_ms = self.record(self.produce, context, len(context.frame))
        if response is not None:
            with_throttle_time(response, throttled_ms)

    def record(self, rates: RateQuotas, context: RequestContext, size: int, *, checks: bool = True) -> int:
        """Counts the bytes of a client, and returns its throttle time in ms; 0 without `checks`."""
        quotas, now_ms = self.requests.known.quotas, self.requests.now_ms()
        return rates.record(quotas, context.principal.name, context.header.client_id, size, now_ms, checks=checks)


class ConsumerQuota:
    """The quotas for one Fetch of a consumer; implements `kcore.broker.replicas.fetching.FetchQuota`."""

    def __init__(self, quotas: ByteQuotas, context: RequestContext) -> None:
        self._quotas, self._context = quotas, context
        self.most_bytes = self._most_value()  # See `FetchQuota.most_bytes`.

    def throttle_time_ms(self, size: Callable[[], Steps[int]]) -> Steps[int]:
        """See `FetchQuota.throttle_time_ms`."""
        quotas, context = self._quotas, self._context
        requests_ms = quotas.requests.used_in(context)
        if self._most_value() == math.inf:
            return requests_ms
        count = yield from size()
        throttled_ms = max(requests_ms, quotas.record(quotas.fetch, context, count))
        if throttled_ms:  # The response is empty: its records do not count.
            quotas.record(quotas.fetch, context, -count, checks=False)
        return throttled_ms

    def _most_value(self) -> float:
        context, quotas = self._context, self._quotas
        return quotas.fetch.most_value(quotas.requests.known.quotas, context.principal.name, context.header.client_id)
