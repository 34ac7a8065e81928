"""A storm of a real cluster has its brokers, racks and topics, and its anonymous shape gives the same numbers."""

import json
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from cases import DATA
from cli.invoking import kcore
from kcore.measure.storm.kraft.kraft_storm import Sizes, Storm, layout_of
from kcore.measure.storm.kraft.scenarios.topics import requests_for
from kcore.measure.workloads.scaling import healthy, scaled
from kcore.metadata.table.partition_table import PartitionTable
from kcore.types import ZERO_UUID

DUMP = DATA / "samples/zk39-scenario/2-broker3-killed.zk.txt"
LOG = DATA / "samples/kraft43/controller-3003"


def test_a_healthy_cluster_has_the_assignments_and_no_history() -> None:
    table = PartitionTable.from_zookeeper_dump(DUMP.read_text())
    table.topics.set_id("t1", ZERO_UUID)
    new = healthy(table)
    assert new.brokers.live.all() and new.brokers.ids.tolist() == table.brokers.ids.tolist()
    for state, before in zip(new, table, strict=True):
        assert (state.topic, state.partition, state.replicas) == (before.topic, before.partition, before.replicas)
        assert state.isr == state.replicas and state.leader == state.replicas[0] and state.leader_epoch == 0
    assert ZERO_UUID not in new.topics.ids and not table.brokers.live.all()


def test_topics_are_created_with_the_assignments_of_the_cluster() -> None:
    table = healthy(scaled(PartitionTable.from_zookeeper_dump(DUMP.read_text()), 11, 6, 1))
    storm = Storm(None, SimpleNamespace(brokers={}), Sizes(partitions=11), Random(1))  # type: ignore[arg-type]
    storm.layout = layout_of(table, [10 * each for each in table.brokers.ids.tolist()])
    topics = storm.fresh_topics()
    assert [count for _, count in topics] == [len(table.rows_of_topic(name)) for name in table.topics.names]
    [request] = requests_for(topics, 3)
    storm.place(request)
    found = [[part.broker_ids for part in topic.assignments] for topic in request.topics]
    assert [each for topic in found for each in topic] == [[10 * each for each in state.replicas] for state in table]
    assert {(topic.num_partitions, topic.replication_factor) for topic in request.topics} == {(-1, -1)}
    [later] = requests_for([("storm-000099", 2)], 3)
    storm.place(later)
    assert not later.topics[0].assignments


def rows_of(source: Path, out: Path) -> list[dict[str, Any]]:
    done = kcore("storm", "register", "create", "--target", "kcore-kraft", "--cluster", source, "--out", out)
    assert done.exit_code == 0, done.output
    return [json.loads(line) for line in (out / "results.jsonl").read_text().splitlines()]


@pytest.mark.long
@pytest.mark.parametrize("source", [DUMP, LOG], ids=lambda path: path.name)
def test_a_storm_of_the_anonymous_shape_has_the_same_numbers(source: Path, tmp_path: Path) -> None:
    shape = tmp_path / "shape.json"
    assert kcore("anonymize", source, shape).exit_code == 0
    both = [rows_of(each, tmp_path / name) for each, name in ((source, "original"), (shape, "shape"))]
    names = ("scenario", "brokers", "partitions", "changes", "expected_least", "expected_most")
    original, shown = ([tuple(row[name] for name in names) for row in rows] for rows in both)
    assert original == shown and original[-1][0] == "create" and original[-1][3] in (4, 8)
