"""Verifications of transactions with a scripted coordinator: which go into a request, and what each one's result is."""

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from kcore.broker.replicas.outputs import Verify
from kcore.broker.replicas.replica import Key
from kcore.metadata.table.broker_table import Endpoint
from kcore.protocol_errors import Errors
from kcore.schema.transactions import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)
from kcore.server.broker import transaction_verifier
from kcore.server.broker.transaction_verifier import VERIFY_SINCE, TransactionVerifier
from net.loops import story, until

COORDINATOR = 9
KEY: Key = ("t", 0)


class Coordinator:
    """The dialer, its connection and the coordinator behind them; answers with `error` in each partition."""

    def __init__(self, *, version: int = VERIFY_SINCE) -> None:
        self.version, self.error, self.top_error = version, Errors.NONE, Errors.NONE
        self.forgets: set[str] = set()  # Transactions that its answers lack.
        self.requests: list[list[tuple[str, int]]] = []  # Transactions and producer epochs of each request.
        self.versions = SimpleNamespace(choose=lambda request: self.version)
        self.aborted = 0

    async def connect(self, where: Endpoint, client_id: str) -> Any:
        return self

    async def renew(self, connection: Any) -> None:
        """No session ends here."""

    def abort(self) -> None:
        self.aborted += 1

    async def send(self, request: AddPartitionsToTxnRequest, version: int) -> AddPartitionsToTxnResponse:
        self.requests.append([(each.transactional_id, each.producer_epoch) for each in request.transactions])
        partition = AddPartitionsToTxnPartitionResult(partition_index=KEY[1], partition_error_code=self.error)
        topic = AddPartitionsToTxnTopicResult(name=KEY[0], results_by_partition=[partition])
        results = [
            AddPartitionsToTxnResult(transactional_id=each.transactional_id, topic_results=[topic])
            for each in request.transactions
            if each.transactional_id not in self.forgets
        ]
        return AddPartitionsToTxnResponse(error_code=self.top_error, results_by_transaction=results)


class Verified:
    """A verifier with this coordinator, and its results by request id."""

    def __init__(self, coordinator: Coordinator, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(transaction_verifier, "coordinator_row", lambda table, key, kind: 0)
        table = SimpleNamespace(state=lambda row: SimpleNamespace(leader=COORDINATOR))
        manager: Any = SimpleNamespace(broker_id=1, cluster=SimpleNamespace(table=table))
        self.results: dict[int, dict[Key, Errors]] = {}
        dialer: Any = coordinator
        endpoint = Endpoint(1, "localhost", "PLAINTEXT", 0)
        self.verifier = TransactionVerifier(manager, lambda broker_id: endpoint, self._take, dialer)

    def _take(self, request_id: int, errors: Mapping[Key, Errors]) -> None:
        assert request_id not in self.results
        self.results[request_id] = {**errors}

    async def of(self, *transactions: str) -> list[dict[Key, Errors]]:
        """The results of these verifications, which begin together."""
        for at, name in enumerate(transactions):
            self.verifier.ask(Verify(at, name, 7, at, (KEY,)))
        await until(lambda: len(self.results) == len(transactions))
        await self.verifier.close()
        return [self.results[at] for at in range(len(transactions))]


@story
async def test_a_request_has_each_transaction_once_and_the_older_verification_goes_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    coordinator = Coordinator()
    assert await Verified(coordinator, monkeypatch).of("x", "y", "x") == [{}, {}, {}]
    assert [sorted(each) for each in coordinator.requests] == [[("x", 0), ("y", 1)], [("x", 2)]]
    assert coordinator.aborted == 1, "when the verifier closes"


@story
async def test_a_transaction_that_the_answer_lacks_fails_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    coordinator = Coordinator()
    coordinator.forgets = {"y"}
    assert await Verified(coordinator, monkeypatch).of("x", "y") == [{}, {KEY: Errors.NETWORK_EXCEPTION}]


@story
async def test_the_error_of_a_whole_answer_is_that_of_each_transaction(monkeypatch: pytest.MonkeyPatch) -> None:
    coordinator = Coordinator()
    coordinator.top_error = Errors.CLUSTER_AUTHORIZATION_FAILED
    refused = {KEY: Errors.CLUSTER_AUTHORIZATION_FAILED}
    assert await Verified(coordinator, monkeypatch).of("x", "y") == [refused, refused]


@story
async def test_a_coordinator_before_verifications_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """AddPartitionsToTxn 3 would add the partitions to the transaction (KIP-890)."""
    coordinator = Coordinator(version=VERIFY_SINCE - 1)
    assert await Verified(coordinator, monkeypatch).of("x") == [{}]
    assert coordinator.requests == []
