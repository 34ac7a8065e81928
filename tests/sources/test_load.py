"""Every kind of source gives the cluster that it describes; everything else is refused in one line."""

from pathlib import Path

import pytest

from cases import DATA
from kcore.errors import ClusterFileError
from kcore.measure.workloads.generate import generate
from kcore.measure.workloads.messages import update_metadata
from kcore.metadata.shape.shape_writer import shape_of, shape_text
from kcore.metadata.table.equality import same_partitions
from kcore.schema import RequestHeader, UpdateMetadataRequest
from kcore.schema.configs import ConfigResourceType
from kcore.sources.load import load_cluster
from kcore.wire.codec import encode
from kcore.wire.column_codec import encode_columns

SAMPLES = DATA / "samples"
LOG = SAMPLES / "kraft43/controller-3003"
DUMP = SAMPLES / "zk39-scenario/3-broker3-back.zk.txt"


@pytest.mark.parametrize("path", [LOG, LOG / "__cluster_metadata-0", LOG / f"__cluster_metadata-0/{0:020}.log"])
def test_metadata_logs(path: Path) -> None:
    image = load_cluster(path)
    assert image.topics.count == 3 and image.configs[ConfigResourceType.TOPIC, "orders"]["min.insync.replicas"] == "1"


def test_snapshots() -> None:
    [path] = (SAMPLES / "kraft44/static").iterdir()
    assert load_cluster(str(path)).scram


def test_a_dump_has_settings_too(tmp_path: Path) -> None:
    lines = DUMP.read_text()
    values = '{"version":1,"config":{"retention.ms":"5"}}'
    for path in ("/config/topics/t1", "/config/brokers/<default>", "/config/brokers/2", "/config/users/alice"):
        lines += f"{path}\tversion=0 cversion=0 czxid=4 mzxid=4\t{values}\n"
    changed = tmp_path / "dump"
    changed.write_text(lines)
    image = load_cluster(changed)
    assert image.configs == {key: {"retention.ms": "5"} for key in ((2, "t1"), (4, ""), (4, "2"))}
    assert same_partitions(image.table, load_cluster(DUMP).table) and len(image.brokers) == 3


@pytest.mark.parametrize("is_framed", [False, True])
def test_a_raw_request(is_framed: bool, tmp_path: Path) -> None:
    table = generate(40, 5, 3, 4, 1)
    message, version = UpdateMetadataRequest, 8
    header = RequestHeader(request_api_key=message.api_key, request_api_version=version, correlation_id=3)
    request = encode(header, message.header_version(version)) + encode_columns(update_metadata(table), version)
    path = tmp_path / "request"
    path.write_bytes(len(request).to_bytes(4, "big") + request if is_framed else request)
    assert {*map(str, load_cluster(path).table)} == {*map(str, table)}


def test_a_shape(tmp_path: Path) -> None:
    image = load_cluster(LOG)
    path = tmp_path / "shape.json"
    path.write_text("".join(shape_text(shape_of(image))))
    assert same_partitions(load_cluster(path).table, image.table)


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("nowhere", "nowhere: No such file or directory"),
        ("", "a source is a path, HOST:PORT,... or zk://HOST:PORT"),
        ("zk://", "zk://: ZooKeeper at ''"),
        ("zk://host:x", "zk://host:x: ZooKeeper at 'host:x'"),
        ("localhost:70000", "localhost:70000: port 70000 is not in 0..65535"),
        ("127.0.0.1:1,127.0.0.1:2", "no connection to 127.0.0.1:1"),
        (str(DATA / "samples/kraft43/orders.dump.txt"), "not a shape file, a ZooKeeper dump, a metadata log or a raw"),
        (str(DATA / "samples"), "neither a segment nor a snapshot there"),
        (str(LOG / "meta.properties"), "not a shape file, a ZooKeeper dump"),
    ],
)
def test_what_is_no_cluster(source: str, said: str) -> None:
    with pytest.raises(ClusterFileError) as caught:
        load_cluster(source)
    assert said in str(caught.value) and "\n" not in str(caught.value)


def test_files_that_only_begin_like_a_cluster(tmp_path: Path) -> None:
    path = tmp_path / "file"
    for content, said in (
        (b'{"format": 1}', "not a valid shape file: it is JSON, but no shape"),
        (b"{\xff}", "not a valid shape file: 'utf-8'"),
        (b"/\xff", "not a valid ZooKeeper dump: 'utf-8'"),
        (b"/brokers", "not a valid ZooKeeper dump: line 1"),
        (b"ZKSN" + bytes(9), "it is a snapshot that ZooKeeper wrote for itself"),
        (b"", "not a shape file"),
    ):
        path.write_bytes(content)
        with pytest.raises(ClusterFileError, match=str(path)) as caught:
            load_cluster(path)
        assert said in str(caught.value)


def test_the_file_of_command_config(tmp_path: Path) -> None:
    config = tmp_path / "client.properties"
    config.write_text("security.protocol=TLS\n")
    with pytest.raises(ClusterFileError, match=r"--command-config .*security.protocol=TLS: give one of"):
        load_cluster("127.0.0.1:1", command_config=config)
    with pytest.raises(ClusterFileError, match="--command-config nowhere: "):
        load_cluster("127.0.0.1:1", command_config="nowhere")
