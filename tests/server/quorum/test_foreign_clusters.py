"""The log lines about nodes that were formatted for another cluster."""

import logging

import pytest

from kcore.schema.broker_lifecycle import BrokerRegistrationRequest
from kcore.schema.fetch import FetchRequest
from kcore.schema.raft_votes import VoteRequest
from kcore.schema.structure import Message
from kcore.server.quorum_node.foreign_clusters import ForeignClusters

REGISTRATION = BrokerRegistrationRequest(broker_id=7, cluster_id="theirs")
FETCH = FetchRequest(replica_id=7, cluster_id="theirs")


@pytest.mark.parametrize(
    ("request_", "cluster_id", "lines"),
    [
        (REGISTRATION, "ours", 1),
        (FETCH, "ours", 1),
        (REGISTRATION, "theirs", 0),
        (FetchRequest(replica_id=7, cluster_id=None), "ours", 0),
        (REGISTRATION, None, 0),
        (VoteRequest(cluster_id="theirs"), "ours", 0),
    ],
    ids=["registration", "fetch", "same cluster", "no cluster", "before the log names our cluster", "vote"],
)
def test_only_a_node_that_names_another_cluster_has_a_line(
    request_: Message, cluster_id: str | None, lines: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    foreign = ForeignClusters()
    for _ in range(3):  # A refused node asks many times a second.
        foreign.look(request_, cluster_id)
    found = [each.getMessage() for each in caplog.records]
    assert len(found) == lines
    assert all(each.startswith("refused node 7: it was formatted for cluster theirs, and this") for each in found)
