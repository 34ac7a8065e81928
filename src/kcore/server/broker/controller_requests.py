"""The requests of a broker to the active controller: ISR changes, blocks of producer ids, new topics."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from kcore.broker.replicas.isr_changes import for_version
from kcore.broker.replicas.replica_manager import ReplicaManager
from kcore.protocol_errors import Errors
from kcore.schema.alter_partition import AlterPartitionRequest
from kcore.schema.producers import AllocateProducerIdsRequest
from kcore.schema.structure import Message
from kcore.server.broker.broker_connections import Choose, Make
from kcore.server.broker.cluster_link import ClusterLink, controller_client
from kcore.server.broker.topic_creation import OrdinaryTopics, TopicCreation
from kcore.server.clock import now_ms

AGAIN_S: Final = 0.3


class ControllerRequests:
    """Sends the broker's own requests over three connections, so that none waits for another kind."""

    def __init__(
        self,
        manager: ReplicaManager,
        link: ClusterLink,
        perform: Callable[[], None],
        ordinary_topics: OrdinaryTopics | None = None,
        write_isrs: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """`perform` performs the replicas' outputs. `ordinary_topics`: see TopicCreation.

        `write_isrs` writes all waiting ISR changes; None: they are sent to the controller.
        """
        self._manager, self._link, self._perform = manager, link, perform
        self._settle_isrs = write_isrs or self._alter_partitions
        broker_id = manager.broker_id
        self._isr_channel = controller_client(link, broker_id, "to-controller-alter-partition")
        self.channel = controller_client(link, broker_id, "to-controller")
        topics_channel = controller_client(link, broker_id, "to-controller-create-topics")
        self.topic_creation = TopicCreation(topics_channel, manager.config, ordinary_topics, link.knows_envelopes)
        self._isr_changes_wait = asyncio.Event()
        self._producer_ids: list[range] = []
        self._allocating = asyncio.Lock()

    def close(self) -> None:
        """Closes the connections."""
        self._isr_channel.close()
        self.channel.close()

    def isr_changes_wait(self) -> None:
        """Called when there are new ISR changes."""
        self._isr_changes_wait.set()

    async def change_isrs(self) -> None:
        """Sends ISR changes when they are due; runs until it is cancelled."""
        changes = self._manager.isr_changes
        while True:
            self._isr_changes_wait.clear()
            wait_ms = changes.wait_ms(now_ms())
            if wait_ms is None:
                await self._isr_changes_wait.wait()
                continue
            await asyncio.sleep(wait_ms / 1000)
            await self._settle_isrs()
            self._perform()

    async def _alter_partitions(self) -> None:
        """Sends all waiting ISR changes to the controller in one request."""
        request = self._manager.isr_changes.next_request(self._link.broker_epoch())
        answer = await self._isr_channel.ask(self._alter_partition(request))
        self._manager.on_alter_partition(answer, now_ms())

    def _alter_partition(self, request: AlterPartitionRequest) -> Make:
        def make(choose: Choose) -> tuple[Message, int]:
            request.broker_epoch = self._link.broker_epoch()
            version = self._manager.isr_changes.version(choose(AlterPartitionRequest))
            return for_version(request, version), version

        return make

    async def next_producer_id(self) -> int:
        """An id from a block that the controller allocated to this broker (KIP-730)."""

        def make(choose: Choose) -> tuple[Message, int]:
            broker_id, broker_epoch = self._manager.broker_id, self._link.broker_epoch()
            request = AllocateProducerIdsRequest(broker_id=broker_id, broker_epoch=broker_epoch)
            return request, choose(AllocateProducerIdsRequest)

        async with self._allocating:
            while not self._producer_ids or not self._producer_ids[0]:
                answer = await self.channel.ask(make)
                if answer.error_code == Errors.NONE:
                    begin = answer.producer_id_start
                    self._producer_ids = [range(begin, begin + answer.producer_id_len)]
                else:
                    await asyncio.sleep(AGAIN_S)
            block = self._producer_ids[0]
            self._producer_ids = [block[1:]]
            return block[0]
