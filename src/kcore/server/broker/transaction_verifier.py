"""Asks coordinators whether transactions include partitions (KIP-890; AddPartitionsToTxnManager of 3.9.1)."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from kcore.broker.replicas.outputs import Verify
from kcore.broker.replicas.replica import Key
from kcore.broker.replicas.replica_manager import ReplicaManager
from kcore.errors import KcoreError, UnsupportedVersionError
from kcore.metadata.table.broker_table import Endpoint
from kcore.net.connection import Connection
from kcore.net.limits.bounded_log import BoundedLog
from kcore.protocol_errors import Errors
from kcore.schema.transactions import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from kcore.server.broker.background_tasks import BackgroundTasks
from kcore.server.broker.broker_connections import Dialer, NodeConnection
from kcore.server.broker.coordination import refusal_of
from kcore.server.broker.group_coordinators import TRANSACTIONS, coordinator_row

logger = logging.getLogger(__name__)
VERIFY_SINCE: Final = 4  # The first version of AddPartitionsToTxn with verifyOnly.


class TransactionVerifier:
    """Sends AddPartitionsToTxn with verifyOnly: a task and a connection for each coordinator, one request at a time."""

    def __init__(
        self,
        manager: ReplicaManager,
        endpoint: Callable[[int], Endpoint | None],
        on_verified: Callable[[int, Mapping[Key, Errors]], None],
        dialer: Dialer | None = None,
    ) -> None:
        """`endpoint` returns the inter-broker endpoint of a broker. `on_verified` takes a request's id and its errors.

        `dialer`: plaintext by default.
        """
        self._dialer = dialer or Dialer()
        self._manager, self._endpoint, self._on_verified = manager, endpoint, on_verified
        self._queues: dict[int, asyncio.Queue[Verify]] = {}
        self._tasks = BackgroundTasks()
        self._log = BoundedLog(logger)

    def ask(self, verify: Verify) -> None:
        """Queues a verification for its coordinator."""
        row = coordinator_row(self._manager.cluster.table, verify.transactional_id, TRANSACTIONS)
        coordinator = -1 if row is None else self._manager.cluster.table.state(row).leader
        if coordinator == self._manager.broker_id:
            self._finish([verify], refusal_of(self._manager, verify.transactional_id, TRANSACTIONS))
        elif self._endpoint(coordinator) is None:
            self._finish([verify], Errors.COORDINATOR_NOT_AVAILABLE)
        else:
            if coordinator not in self._queues:
                self._queues[coordinator] = asyncio.Queue()
                self._tasks.begin(self._run(coordinator), f"verifying transactions with broker {coordinator}")
            self._queues[coordinator].put_nowait(verify)

    async def close(self) -> None:
        """Stops; waiting verifications get no result."""
        await self._tasks.close()

    async def _run(self, coordinator: int) -> None:
        queue, absent = self._queues[coordinator], f"broker {coordinator} is not alive"
        client_id = f"broker-{self._manager.broker_id}-transactions"
        link = NodeConnection(self._dialer, client_id, partial(self._endpoint, coordinator), absent)
        left: list[Verify] = []
        try:
            while True:
                waiting = left or [await queue.get()]
                while not queue.empty():
                    waiting.append(queue.get_nowait())
                batch = {each.transactional_id: each for each in reversed(waiting)}  # A request has each id once.
                left = [each for each in waiting if each is not batch[each.transactional_id]]
                try:
                    await self._ask(await link.ready(), batch)
                except UnsupportedVersionError:
                    self._finish([*batch.values()], Errors.NONE)  # A broker before KIP-890: no verification.
                except KcoreError as error:
                    self._log.info("verifying transactions with broker %s: %s", coordinator, error)
                    link.close()
                    self._finish([*batch.values()], Errors.NETWORK_EXCEPTION)
        finally:  # Queued verifications time out; the next one opens a new connection.
            del self._queues[coordinator]
            link.close()

    async def _ask(self, connection: Connection, batch: Mapping[str, Verify]) -> None:
        assert connection.versions is not None
        version = connection.versions.choose(AddPartitionsToTxnRequest)
        if version < VERIFY_SINCE:
            raise UnsupportedVersionError(f"AddPartitionsToTxn {version} does not support verification")
        transactions = [
            AddPartitionsToTxnTransaction(
                transactional_id=each.transactional_id,
                producer_id=each.producer_id,
                producer_epoch=each.producer_epoch,
                verify_only=True,
                topics=_topics(each.keys),
            )
            for each in batch.values()
        ]
        answer: AddPartitionsToTxnResponse = await connection.send(
            AddPartitionsToTxnRequest(transactions=transactions), version
        )
        if answer.error_code != Errors.NONE:
            self._finish([*batch.values()], Errors.of(answer.error_code))
            return
        results = {each.transactional_id: each for each in answer.results_by_transaction}
        for transactional_id, verify in batch.items():
            if transactional_id not in results:
                self._finish([verify], Errors.NETWORK_EXCEPTION)
                continue
            codes = {
                (topic.name, each.partition_index): Errors.of(each.partition_error_code)
                for topic in results[transactional_id].topic_results
                for each in topic.results_by_partition
            }
            refused = {key: code for key, code in codes.items() if code is not Errors.NONE}
            self._on_verified(verify.request_id, refused)

    def _finish(self, verify: list[Verify], error: Errors) -> None:
        """Reports `error` for all partitions of these verifications; NONE: all are verified."""
        for each in verify:
            self._on_verified(each.request_id, {} if error is Errors.NONE else dict.fromkeys(each.keys, error))


def _topics(keys: tuple[Key, ...]) -> list[AddPartitionsToTxnTopic]:
    topics: dict[str, AddPartitionsToTxnTopic] = {}
    for name, index in keys:
        topics.setdefault(name, AddPartitionsToTxnTopic(name=name, partitions=[])).partitions.append(index)
    return [*topics.values()]
