"""A shape describes the whole cluster: the image of its text equals the original, and invalid texts are refused."""

import json
from pathlib import Path
from random import Random
from typing import Any

import pytest

from cases import DATA
from kcore.errors import TableError
from kcore.metadata.image.image import ClusterImage
from kcore.metadata.shape.shape_reader import image_of, parse_shape
from kcore.metadata.shape.shape_writer import shape_of, shape_text
from kcore.metadata.table.equality import same_partitions
from kcore.metadata.table.partition_table import PartitionTable
from kcore.schema.metadata_records_topics import PartitionChangeRecord
from kcore.storage.raft.metadata_log import load_metadata
from kcore.wire.metadata_frames import decode_metadata_record
from metadata.stories import Story
from seeds import seeds

SAMPLES = DATA / "samples"
LOGS = [SAMPLES / "kraft43/controller-3003", SAMPLES / "kraft39/00000000000000000000.log", *SAMPLES.glob("kraft44/*")]
DUMPS = sorted(SAMPLES.glob("zk39-scenario/*.zk.txt"))


def text_of(image: ClusterImage) -> str:
    return "".join(shape_text(shape_of(image)))


def assert_described(image: ClusterImage) -> ClusterImage:
    text = text_of(image)
    shown = image_of(parse_shape(text))
    for part in ("features", "configs", "acls", "quotas", "brokers"):
        assert getattr(shown, part) == getattr(image, part), part
    assert shown.scram.keys() == image.scram.keys()
    assert same_partitions(shown.table, image.table)
    assert shown.brokers.ids.tolist() == image.brokers.ids.tolist()
    assert [name for name in image.topics.names if name] == shown.topics.names
    assert text_of(shown) == text
    return shown


@pytest.mark.parametrize("path", LOGS, ids=str)
def test_a_metadata_log(path: Path) -> None:
    assert_described(load_metadata(path))


@pytest.mark.parametrize("path", DUMPS, ids=lambda path: path.name)
def test_a_zookeeper_dump(path: Path) -> None:
    table = PartitionTable.from_zookeeper_dump(path.read_text())
    shown = assert_described(ClusterImage(table)).table
    assert [*shown] == [*table]


@pytest.mark.parametrize("seed", seeds(5, 50))
def test_random_clusters(seed: int) -> None:
    image = ClusterImage()
    for value in Story(Random(seed)).values(400):
        image.apply(decode_metadata_record(value)[0])
    keep_members_inside(image)
    assert_described(image)


def keep_members_inside(image: ClusterImage) -> None:
    """Takes brokers out of ISRs and leaders that are not replicas: no controller writes these, but a story does."""
    for name, topic_id in image.topic_ids.items():
        for row in image.table.rows_of_topic(name).tolist():
            state = image.table.state(row)
            isr = [each for each in state.isr if each in state.replicas]
            leader = state.leader if state.leader in state.replicas else -1
            if (len(isr), leader) != (len(state.isr), state.leader):
                change = PartitionChangeRecord(partition_id=state.partition, topic_id=topic_id, isr=isr, leader=leader)
                image.apply(change)


def test_a_shape_has_no_secrets() -> None:
    image = load_metadata(SAMPLES / "kraft44/static")
    [credential] = image.scram.values()
    shown = image_of(parse_shape(text_of(image)))
    [without] = shown.scram.values()
    assert credential.salt and not without.salt and without.iterations == credential.iterations
    assert "salt" not in text_of(image) and "Key" not in text_of(image)


SHAPE: dict[str, Any] = {
    "format": "kcore cluster shape",
    "version": 1,
    "brokers": [{"brokerId": 1, "registered": False}, {"brokerId": 2, "registered": False}],
    "topics": [{"name": "t", "partitions": [{"replicas": [1, 2]}]}],
}


def changed(path: tuple[str | int, ...], value: Any) -> str:
    document = json.loads(json.dumps(SHAPE))
    place: Any = document
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    return json.dumps(document)


ID = "I7LXX41eRDKuIrrTWkr_Ww"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "it is not JSON"),
        ("[" * 100_000, "it is not JSON"),
        ("[]", "no shape of a cluster"),
        (changed(("version",), 2), "version 2 of the format is unknown: this kcore reads 1"),
        (changed(("topic",), []), "a shape has no 'topic', only format, version, directories"),
        (changed(("brokers",), 5), "brokers: expected a list, not 5"),
        (changed(("brokers", 1), 5), "brokers[1]: expected an object, not 5"),
        (changed(("brokers", 1, "brokerId"), 1), "brokers[1]: broker 1 is given twice"),
        (changed(("brokers", 1, "brokerId"), -1), "brokers[1]: a broker that is not registered has a brokerId"),
        (changed(("brokers", 1), {"brokerId": 2}), "brokers[1]: isMigratingZkBroker"),
        (changed(("topics", 0, "name"), 7), "topics[0].name"),
        (changed(("topics", 0, "extra"), 7), "topics[0]: a topic has no 'extra'"),
        (changed(("topics", 0, "topicId"), "x"), "topics[0].topicId"),
        (changed(("topics", 0, "partitions", 0, "isr"), [True]), "topics[0].partitions[0].isr: expected a list of"),
        (
            changed(("topics", 0, "partitions", 0, "leaders"), 1),
            "topics[0].partitions[0]: a partition has no 'leaders'",
        ),
        (changed(("topics", 0, "partitions", 0, "leader"), 2**40), "leader: 1099511627776 is no 32-bit integer"),
        (changed(("topics", 0, "partitions", 0, "leader"), 9), "[0].leader: broker 9 is none of the replicas [1, 2]"),
        (changed(("topics", 0, "partitions", 0, "isr"), [2, 3]), "[0].isr: broker 3 is none of the replicas [1, 2]"),
        (changed(("topics", 0, "partitions", 0, "replicas"), [1, 9]), "unknown broker 9"),
        (changed(("version",), True), "version True of the format is unknown: this kcore reads 1"),
        (json.dumps(SHAPE)[:-1] + ', "version": 1}', "key 'version' occurs twice in one object"),
        (json.dumps(SHAPE).replace('"replicas"', '"isr": [1], "isr"'), "key 'isr' occurs twice in one object"),
        (changed(("topics", 0, "name"), "n" * 250), f"topics[0].name: longer than 249 characters: '{'n' * 59}"),
        (changed(("topics", 0, "partitions", 0, "replicas"), []), "has no replicas"),
        (changed(("topics", 0, "partitions", 0, "replicas"), [1, 1]), "names a broker twice"),
        (
            changed(("topics", 0, "partitions", 0, "directories"), [0]),
            "[0]: one place in the shape's directories a replica",
        ),
        (changed(("topics",), [SHAPE["topics"][0]] * 2), "topics[1]: topic 't' is given twice"),
        (changed(("topics", 0, "name"), ""), "topics[0].name: a topic has a name, and this one is empty"),
        (changed(("topics", 0, "name"), "\ud800"), "topics[0].name: no UTF-8"),
        (
            changed(("topics",), [{"name": name, "topicId": ID, "partitions": []} for name in "tu"]),
            f"{ID} is given twice",
        ),
        (changed(("directories",), ["x"]), "directories: "),
        (changed(("directories",), [5]), "directories: expected texts, not [5]"),
        (changed(("configs",), [{}]), "configs[0]: resourceType"),
    ],
)
def test_invalid_shapes(text: str, said: str) -> None:
    with pytest.raises(TableError) as caught:
        image_of(parse_shape(text))
    assert said in str(caught.value) and "\n" not in str(caught.value)
