"""An anonymous shape has no text of the original, and the same structure; equal keys give equal pseudonyms."""

import json
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from cases import DATA
from kcore import schema as s
from kcore.measure.workloads.cell import Cell
from kcore.measure.workloads.clusters import cluster_of
from kcore.metadata.image.image import ClusterImage
from kcore.metadata.shape.anonymous import KEY_BYTES, anonymized, summary
from kcore.metadata.shape.shape_reader import image_of, parse_shape
from kcore.metadata.shape.shape_writer import shape_of, shape_text
from kcore.metadata.table.partition_table import PartitionTable
from kcore.replication.elect import zookeeper_elect
from kcore.schema.metadata_records_brokers import BrokerEndpoint
from kcore.schema.metadata_records_settings import EntityData
from kcore.storage.raft.metadata_log import load_metadata
from kcore.types import Uuid

KEY = bytes(range(KEY_BYTES))
SAMPLES = DATA / "samples"
LOGS = [SAMPLES / "kraft43/controller-3003", SAMPLES / "kraft39/00000000000000000000.log", *SAMPLES.glob("kraft44/*")]
DUMPS = sorted(SAMPLES.glob("zk39-scenario/*.zk.txt"))
LETTERS = "ghijklmnopqrstuvwxyzQXZ"  # A pseudonym has hexadecimal digits only.


def add_topic(image: ClusterImage, random: Random, text: Callable[..., str], users: list[str]) -> None:
    """Adds a topic with partitions, settings and an ACL."""
    name, topic_id = text(random.choice((1, 4))), Uuid(random.randbytes(16))
    image.apply(s.TopicRecord(name=name, topic_id=topic_id))
    for partition in range(random.randint(1, 5)):
        replicas = random.sample(range(1001, 1006), 3)
        image.apply(
            s.PartitionRecord(
                partition_id=partition, topic_id=topic_id, replicas=replicas, isr=replicas[:2], leader=replicas[1],
                leader_epoch=3, partition_epoch=5, directories=[],
            )
        )  # fmt: skip
    for key, value in (
        ("retention.ms", "60000"),
        ("cleanup.policy", "compact,delete"),
        (text(), text()),
        ("ssl.keystore.password", "1234567"),
        ("leader.replication.throttled.replicas", "0:1001,1:1002"),
    ):
        image.apply(s.ConfigRecord(resource_type=2, resource_name=name, name=key, value=value))
    image.apply(
        s.AccessControlEntryRecord(
            id=Uuid(random.randbytes(16)), resource_type=2, resource_name=name, pattern_type=3, operation=3,
            permission_type=3,
            principal=f"User:{random.choice(users)}", host=random.choice([text(), "*"]),
        )
    )  # fmt: skip


def cluster(random: Random) -> tuple[ClusterImage, set[str]]:
    """A cluster with texts of all kinds and lengths, and these texts."""
    image, texts = ClusterImage(), set[str]()

    def text(least: int = 4, most: int = 40) -> str:
        made = random.choice(["", "dead", "cafe0", "Bank-"]) + "".join(
            random.choices(LETTERS + "abcdef0123.-_", k=random.randint(least, most))
        )
        texts.add(made)
        return made

    uuids = [Uuid(random.randbytes(16)) for _ in range(40)]
    racks, users, groups = [text(1, 9) for _ in range(3)], [text() for _ in range(4)], [text() for _ in range(2)]
    for broker_id in range(1001, 1006):
        image.apply(
            s.RegisterBrokerRecord(
                broker_id=broker_id, broker_epoch=broker_id, incarnation_id=uuids.pop(), rack=random.choice(racks),
                fenced=False, log_dirs=[uuids.pop()],
                end_points=[BrokerEndpoint(name=text(), host=text(), port=9092, security_protocol=1)],
            )
        )  # fmt: skip
    for _ in range(8):
        add_topic(image, random, text, users)
    for group in groups:
        entity = [
            EntityData(entity_type="user", entity_name=users[0]),
            EntityData(entity_type="client-id", entity_name=group),
        ]
        image.apply(s.ClientQuotaRecord(entity=entity, key="producer_byte_rate", value=5.0, remove=False))
    image.apply(s.ConfigRecord(resource_type=4, resource_name="1003", name="log.retention.ms", value="7"))
    image.apply(
        s.UserScramCredentialRecord(
            name=users[1], mechanism=1, salt=b"salt", stored_key=b"k", server_key=b"k", iterations=4096
        )
    )
    return image, texts | {"1234567", "0:1001,1:1002"} | {str(each) for each in image.topic_ids.values()}


def text_of(document: dict[str, Any]) -> str:
    return "".join(shape_text(document))


@pytest.mark.parametrize("seed", range(5))
def test_no_text_of_the_original_is_left(seed: int) -> None:
    image, texts = cluster(Random(seed))
    given = shape_of(image)
    shown = text_of(anonymized(given, KEY))
    longer = {each for each in texts if len(each.encode()) >= 4 and each in text_of(given)}
    assert len(longer) > 50
    assert [each for each in longer if each in shown] == []


@pytest.mark.parametrize("path", [*LOGS, *DUMPS], ids=lambda path: path.name)
def test_names_and_hosts_of_recorded_clusters(path: Path) -> None:
    image = ClusterImage(PartitionTable.from_zookeeper_dump(path.read_text())) if path in DUMPS else load_metadata(path)
    shown = text_of(anonymized(shape_of(image), KEY))
    texts = {name for name in image.topics.names if not name.startswith("__")}
    texts |= {each.host for listeners in image.brokers.endpoints for each in listeners}
    texts |= {str(each) for each in (*image.topics.ids, *image.brokers.incarnation_ids) if any(each)}
    texts |= {name for _, name in image.scram}
    assert [each for each in texts if len(each) >= 4 and each in shown] == []


def shape_only(document: dict[str, Any]) -> Any:
    """The document's numbers, counts and lengths of texts."""

    def reduced(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: reduced(each) for key, each in value.items() if key != "brokerId"}
        if isinstance(value, list):
            return [reduced(each) for each in value]
        return len(value.encode()) if isinstance(value, str) else value

    return reduced(document)


@pytest.mark.parametrize("seed", range(3))
def test_structure_and_relations_stay(seed: int) -> None:
    image, _ = cluster(Random(seed))
    given = shape_of(image)
    shown = anonymized(given, KEY, keep_broker_ids=True)
    assert {**shape_only(given), "configs": 0} == {**shape_only(shown), "configs": 0}
    for one, other in zip(given["acls"], shown["acls"], strict=True):
        at = [topic["name"] for topic in given["topics"]].index(one["resourceName"])
        assert other["resourceName"] == shown["topics"][at]["name"] and other["principal"].startswith("User:")
        assert (one["host"] == "*") == (other["host"] == "*")
    kept = [each["value"] for each in shown["configs"] if each["name"] in ("retention.ms", "cleanup.policy")]
    assert {*kept} == {"60000", "compact,delete"}
    assert len({topic["name"] for topic in shown["topics"]}) == len(given["topics"])
    assert image_of(parse_shape(text_of(shown))).table.partition_count == image.table.partition_count


def test_brokers_are_numbered_in_their_order() -> None:
    image, _ = cluster(Random(1))
    shown = anonymized(shape_of(image), KEY)
    assert sorted(each["brokerId"] for each in shown["brokers"]) == [1, 2, 3, 4, 5]
    assert [each["resourceName"] for each in shown["configs"] if each["resourceType"] == 4] == ["3"]
    before, after = [*image.table], [*image_of(shown).table]
    assert [[each - 1000 for each in state.replicas] for state in before] == [[*state.replicas] for state in after]
    assert [state.leader - 1000 for state in before] == [state.leader for state in after]


def test_the_key_decides_the_pseudonyms() -> None:
    given = shape_of(cluster(Random(2))[0])
    assert anonymized(given, KEY) == anonymized(json.loads(json.dumps(given)), KEY)
    other = anonymized(given, bytes(KEY_BYTES))
    names = ({topic["name"] for topic in each["topics"]} for each in (anonymized(given, KEY), other))
    assert not set.intersection(*names)


@pytest.mark.parametrize("path", DUMPS, ids=lambda path: path.name)
def test_decisions_and_benchmarks_have_the_same_numbers(path: Path) -> None:
    table = PartitionTable.from_zookeeper_dump(path.read_text())
    shown = image_of(anonymized(shape_of(ClusterImage(table)), KEY)).table
    brokers = table.brokers
    for row in range(len(brokers)):
        lost = [zookeeper_elect(each, leaving=[int(each.brokers.ids[row])]).written() for each in (table, shown)]
        assert lost[0].rows.tolist() == lost[1].rows.tolist()
        leaders = [
            each.brokers.rows(changes.leaders).tolist() for each, changes in zip((table, shown), lost, strict=True)
        ]
        assert leaders[0] == leaders[1]
    cell = Cell("codec", 50, len(brokers) + 2, 1, 0, isr="mixed")
    scaled = [cluster_of(cell, each) for each in (table, shown)]
    for name in ("replicas__ps", "isr__pi", "leader__p", "leader_epoch__p", "topic_row__p"):
        assert getattr(scaled[0], name).tolist() == getattr(scaled[1], name).tolist()


def test_the_summary() -> None:
    given = shape_of(cluster(Random(3))[0])
    said = summary(given, anonymized(given, KEY))
    assert "5 brokers" in said["kept"] and "8 topic names" in said["replaced"] and "SCRAM" in said["left out"]
