"""An image's tables have what its objects have, on logs that Kafka wrote; they show no secret."""

from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

import kcore
from cases import DATA
from kcore.metadata.image.image import ClusterImage
from kcore.metadata.image.image_arrow import SCHEMAS
from kcore.metadata.image.table_names import TABLES
from kcore.metadata.sensitive_settings import is_sensitive_setting
from kcore.schema.configs import ConfigResourceType as Kind
from kcore.schema.metadata_records_settings import ConfigRecord
from kcore.wire.metadata_frames import decode_metadata_record
from metadata.recorded_logs import log_of_story
from metadata.stories import Story
from seeds import seeds

STORIES = ("4.4.0-80", "4.4.0-121", "4.4.0-142")
SAMPLE = DATA / "samples/kraft43/controller-3003"


@pytest.fixture(scope="module", params=[*STORIES, "sample", "random"])
def image(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> ClusterImage:
    if request.param == "sample":
        return kcore.load_metadata(SAMPLE)
    if request.param != "random":
        return kcore.load_metadata(log_of_story(request.param, tmp_path_factory.mktemp("story")))
    return random_image(4)


def random_image(seed: int) -> ClusterImage:
    image = ClusterImage()
    for value in Story(Random(seed)).values(1500):
        image.apply(decode_metadata_record(value)[0])
    return image


def rows_of(image: ClusterImage, table: str) -> list[dict[str, Any]]:
    made = image.tables()[table].to_arrow()
    made.validate(full=True)
    assert made.schema == SCHEMAS[table]
    return made.to_pylist()


def test_partitions(image: ClusterImage) -> None:
    rows = {(row["topic"], row["partition"]): row for row in rows_of(image, "partitions")}
    assert len(rows) == image.table.partition_count > 0
    for (topic, partition), row in rows.items():
        state = image.partition(topic, partition)
        assert row["topicId"] == str(image.topic_ids[topic])
        lists = {"replicas": state.replicas, "isr": state.isr, "addingReplicas": state.adding_replicas}
        lists |= {"removingReplicas": state.removing_replicas, "eligibleLeaderReplicas": state.elr}
        assert {name: tuple(row[name]) for name in lists} == lists
        assert row["directories"] in (None, [str(each) for each in state.directories])
        assert (row["leader"], row["leaderEpoch"]) == (state.leader, state.leader_epoch)


@pytest.mark.parametrize("seed", seeds(3, 40))
def test_partitions_that_move(seed: int) -> None:
    image = random_image(seed)
    rows = rows_of(image, "partitions")
    assert any(row["addingReplicas"] for row in rows) or not image.table.adding
    for row in rows:
        state = image.partition(row["topic"], row["partition"])
        assert tuple(row["addingReplicas"]) == state.adding_replicas
        assert tuple(row["removingReplicas"]) == state.removing_replicas


def test_topics(image: ClusterImage) -> None:
    rows = rows_of(image, "topics")
    assert {row["topic"]: row["topicId"] for row in rows} == {name: str(each) for name, each in image.topic_ids.items()}
    for row in rows:
        states = [*image.table.states(image.table.rows_of_topic(row["topic"]))]
        assert row["partitions"] == len(states)
        assert row["replicationFactor"] == next((len(each.replicas) for each in states if not each.partition), 0)


def test_brokers(image: ClusterImage) -> None:
    rows = {row["brokerId"]: row for row in rows_of(image, "brokers")}
    assert [*rows] == image.brokers.ids.tolist()
    for broker_id, row in rows.items():
        broker = image.brokers.get(broker_id)
        assert row["registered"] == (broker is not None)
        if broker is None:
            continue
        assert (row["brokerEpoch"], row["rack"], row["fenced"]) == (broker.epoch, broker.rack, broker.fenced)
        assert row["incarnationId"] == str(broker.incarnation_id)
        assert [(each["host"], each["port"]) for each in row["endPoints"]] == [
            (each.host, each.port) for each in broker.listeners
        ]
        assert row["logDirs"] == [str(each) for each in broker.directories]
        assert len(row["features"]) == len(broker.supported_features)
        cordoned = broker.cordoned_directories
        assert row["cordonedLogDirs"] == (None if cordoned is None else [str(each) for each in cordoned])


def test_directories(image: ClusterImage) -> None:
    replicas: dict[str, int] = {}
    for row in rows_of(image, "partitions"):
        for directory in row["directories"] or ():
            replicas[directory] = replicas.get(directory, 0) + 1
    owners = {str(each): broker for broker in image.brokers for each in image.brokers[broker].directories}
    for row in rows_of(image, "directories"):
        assert row["replicas"] == replicas.get(row["directory"], 0)
        assert row["brokerId"] == owners.get(row["directory"])


def test_settings(image: ClusterImage) -> None:
    configs = rows_of(image, "configs")
    assert len(configs) == sum(map(len, image.configs.values()))
    for row in configs:
        kind = Kind[row["resourceType"]]
        value = image.configs[kind, row["resourceName"]][row["name"]]
        assert row["value"] == (None if row["isSensitive"] else value)
    acls = rows_of(image, "acls")
    assert [row["id"] for row in acls] == [str(each) for each in sorted(image.acls)]
    assert all(row["operation"].isupper() and row["permissionType"] in ("ALLOW", "DENY") for row in acls)
    quotas = {
        (tuple((part["entityType"], part["entityName"]) for part in row["entity"]), row["key"]): row["value"]
        for row in rows_of(image, "quotas")
    }
    assert quotas == {(entity, key): value for entity, each in image.quotas.items() for key, value in each.items()}
    assert {row["name"]: row["featureLevel"] for row in rows_of(image, "features")} == image.features


def test_the_name_of_the_metadata_version(tmp_path: Path) -> None:
    image = kcore.load_metadata(log_of_story("4.4.0-142", tmp_path))
    names = {row["name"]: row["metadataVersion"] for row in rows_of(image, "features")}
    assert names.pop("metadata.version") == "4.4-IV2" and {*names.values()} == {None}


def test_passwords_are_no_values() -> None:
    assert not is_sensitive_setting(Kind.BROKER, "log.retention.ms")
    assert is_sensitive_setting(Kind.BROKER, "ssl.key.password")
    assert is_sensitive_setting(Kind.BROKER, "listener.name.external.ssl.keystore.password")
    assert is_sensitive_setting(Kind.TOPIC, "my.password") and not is_sensitive_setting(Kind.TOPIC, "retention.ms")
    image = ClusterImage()
    given = {"ssl.key.password": "hidden-1", "num.io.threads": "8", "my.plugin.token": "hidden-2"}
    for name, value in given.items():
        image.apply(ConfigRecord(resource_type=4, resource_name="1", name=name, value=value))
    rows = {row["name"]: row["value"] for row in rows_of(image, "configs")}
    assert rows == {"ssl.key.password": None, "num.io.threads": "8", "my.plugin.token": None}


def test_no_table_has_credentials(image: ClusterImage) -> None:
    text = "".join(str(each.to_arrow().to_pydict()) for each in image.tables().values())
    secrets = [key for each in image.scram.values() for key in (each.salt, each.stored_key, each.server_key)]
    assert not any(str(secret) in text or secret.hex() in text for secret in secrets if secret)
    assert {"scram", "tokens"}.isdisjoint(image.tables())


def test_tables_are_streams_and_read_the_present_state() -> None:
    image = ClusterImage()
    tables = image.tables()
    assert tuple(tables) == TABLES == tuple(SCHEMAS)
    assert pa.table(tables["configs"]).num_rows == 0
    image.apply(ConfigRecord(resource_type=2, resource_name="t", name="retention.ms", value="1"))
    assert pa.table(tables["configs"]).num_rows == 1
    assert repr(tables["configs"]).startswith("<ImageTable configs of <ClusterImage")
