"""A reader of a whole topic, without a group: each partition from its leader, up to what is committed."""

import asyncio
from collections import Counter

from kcore.errors import NetworkError
from kcore.net.connect import connect
from kcore.net.limits.connection_limits import Limits
from kcore.protocol_errors import Errors
from kcore.schema.cluster_metadata import MetadataRequest, MetadataRequestTopic
from kcore.schema.fetch import FetchPartition, FetchRequest, FetchTopic
from kcore.wire.record_batch import scan_batches
from kcore.wire.records import decode_records

LIMITS = Limits(connect_s=5, request_s=5)
BY_NAME = 12  # The last version of Fetch with topics by name.


class Reader:
    """Reads each record of a topic once; `values` counts the records of each value."""

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self.values: Counter[str] = Counter()
        self._offsets: Counter[int] = Counter()  # The next of each partition.

    def read_on(self, bootstrap: str) -> Counter[str]:
        """All values so far; those of leaders that do not answer come another time."""
        for address in bootstrap.split(","):
            try:
                asyncio.run(self._read_on(*address.split(":")))
                break
            except NetworkError:
                continue
        return self.values

    def twice(self) -> list[str]:
        """Values of more than one record."""
        return [value for value, count in self.values.items() if count > 1]

    async def _read_on(self, host: str, port: str) -> None:
        async with await connect(host, int(port), limits=LIMITS) as connection:
            metadata = await connection.send(MetadataRequest(topics=[MetadataRequestTopic(name=self.topic)]))
        nodes = {broker.node_id: (broker.host, broker.port) for broker in metadata.brokers}
        led: dict[int, set[int]] = {}
        for partition in metadata.topics[0].partitions:
            led.setdefault(partition.leader_id, set()).add(partition.partition_index)
        for leader, partitions in led.items():
            if leader in nodes:
                await self._read_from(*nodes[leader], partitions)

    async def _read_from(self, host: str, port: int, partitions: set[int]) -> None:
        """Until nothing new comes."""
        async with await connect(host, port, limits=LIMITS) as connection:
            while partitions:
                asked = [
                    FetchPartition(partition=each, fetch_offset=self._offsets[each], partition_max_bytes=1 << 20)
                    for each in partitions
                ]
                topic = FetchTopic(topic=self.topic, partitions=asked)
                request = FetchRequest(replica_id=-1, max_wait_ms=0, topics=[topic], forgotten_topics_data=[])
                answer = await connection.send(request, BY_NAME)
                partitions = {
                    data.partition_index
                    for topic in answer.responses
                    for data in topic.partitions
                    if data.error_code == Errors.NONE and self._take(data.partition_index, data.records or b"")
                }

    def _take(self, partition: int, records: bytes) -> bool:
        """Whether there was anything new; the last batch may be cut off, the first begin before what was asked."""
        before = self._offsets[partition]
        for record in decode_records(records[: scan_batches(records, stop=True).end]):
            if record.offset >= self._offsets[partition]:
                self._offsets[partition] = record.offset + 1
                self.values[(record.value or b"").decode()] += 1
        return self._offsets[partition] > before
