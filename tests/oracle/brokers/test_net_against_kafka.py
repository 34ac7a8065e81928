"""Connections to a real Kafka controller: versions, requests, TLS, SASL, and what it does with nonsense."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
import trustme
from cryptography.hazmat.primitives import serialization

from kcore import schema as s
from kcore.constants import METADATA_TOPIC
from kcore.errors import AuthenticationError, DisconnectedError, FrameError
from kcore.measure.hollow.quorum_client import Quorum
from kcore.measure.processes.kafka_quorum import KafkaQuorum
from kcore.net.connect import connect
from kcore.net.connection import Connection
from kcore.net.limits.connection_limits import Limits
from kcore.net.security.client_security import Sasl, Security
from kcore.net.versions import read_answer
from kcore.protocol_errors import Errors
from kcore.schema.broker_lifecycle import Feature
from kcore.schema.describe_quorum import DescribeQuorumRequestPartitionData, DescribeQuorumRequestTopicData
from kcore.schema.index import REQUESTS
from kcore.types import Uuid
from net.authority import client_tls
from net.loops import story
from oracle.kafka_tools import RELEASE

PASSWORD = "geheim"
SECURE = {
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
    "plain.sasl.jaas.config": (
        f'org.apache.kafka.common.security.plain.PlainLoginModule required user_kcore="{PASSWORD}";'
    ),
    "scram-sha-256.sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required;",
    "scram-sha-512.sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required;",
    "ssl.keystore.type": "PEM",
}
LIMITS = Limits(connect_s=60)


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="module")
def ca(authority: trustme.CA, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("ca") / "ca.pem"
    authority.cert_pem.write_to_path(str(path))
    return path


@pytest.fixture(scope="module")
def kafka(authority: trustme.CA, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaQuorum]:
    keystore = tmp_path_factory.mktemp("controller") / "keystore.pem"
    keystore.write_bytes(key_and_certificate(authority.issue_cert("127.0.0.1")))
    secure = {**SECURE, "ssl.keystore.location": str(keystore)}
    scram = [f"SCRAM-SHA-{bits}=[name=kcore,password={PASSWORD}]" for bits in (256, 512)]
    with KafkaQuorum(
        RELEASE,
        heap="256m",
        listeners={"SECURE": "SASL_SSL"},
        properties="\n".join(f"listener.name.secure.{key}={value}" for key, value in secure.items()),
        users=scram,
    ) as running:
        asyncio.run(until_active(running))
        yield running


async def until_active(kafka: KafkaQuorum) -> None:
    quorum = Quorum(kafka.bootstrap, random=Random())
    await quorum.open()
    while (await quorum.describe()).high_watermark < 1:
        await asyncio.sleep(0.1)
    await quorum.close()


def key_and_certificate(certificate: trustme.LeafCert) -> bytes:
    """Kafka reads private keys as PKCS #8 only."""
    key = serialization.load_pem_private_key(certificate.private_key_pem.bytes(), None)
    pem = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    return key.private_bytes(*pem) + certificate.cert_chain_pems[0].bytes()


def quorum_request() -> s.DescribeQuorumRequest:
    partition = DescribeQuorumRequestPartitionData(partition_index=0)
    return s.DescribeQuorumRequest(
        topics=[DescribeQuorumRequestTopicData(topic_name=METADATA_TOPIC, partitions=[partition])]
    )


async def leader_of(connection: Connection) -> int:
    answer = await connection.send(quorum_request())
    return int(answer.topics[0].partitions[0].leader_id)


@story
async def test_versions(kafka: KafkaQuorum) -> None:
    async with await connect("127.0.0.1", kafka.nodes[0].port, limits=LIMITS) as connection:
        assert connection.versions is not None
        for api_key, theirs in connection.versions.by_key.items():
            ours = REQUESTS[api_key].versions
            assert connection.versions.choose(REQUESTS[api_key]) == min(theirs.highest, ours.highest)
        features = {feature.name for feature in connection.versions.answer.finalized_features}
        assert "metadata.version" in features
        assert await leader_of(connection) == kafka.nodes[0].node_id


@story
async def test_every_version_of_a_request(kafka: KafkaQuorum) -> None:
    async with await connect("127.0.0.1", kafka.nodes[0].port, limits=LIMITS) as connection:
        for version in range(3):
            answer = await connection.send(quorum_request(), version)
            assert answer.topics[0].partitions[0].leader_id == kafka.nodes[0].node_id
        for version in range(1, 3):  # Version 0 cannot ask for controllers.
            cluster = await connection.send(s.DescribeClusterRequest(endpoint_type=2), version)
            assert (cluster.error_code, cluster.cluster_id) == (0, kafka.cluster_id)


@story
async def test_a_broker_registers_and_beats(kafka: KafkaQuorum) -> None:
    async with await connect("127.0.0.1", kafka.nodes[0].port, limits=LIMITS) as connection:
        assert connection.versions is not None
        features = [
            Feature(name=each.name, min_supported_version=each.min_version, max_supported_version=each.max_version)
            for each in connection.versions.answer.supported_features
        ]
        request = s.BrokerRegistrationRequest(
            broker_id=1,
            cluster_id=kafka.cluster_id,
            incarnation_id=Uuid(bytes(range(16))),
            features=features,
            log_dirs=[Uuid(bytes(range(100, 116)))],
            rack=None,
        )
        registered = await connection.send(request)
        assert Errors(registered.error_code) is Errors.NONE
        beat = s.BrokerHeartbeatRequest(broker_id=1, broker_epoch=registered.broker_epoch)
        calls = [connection.send(beat) for _ in range(50)]
        assert {(Errors((await call).error_code), (await call).is_fenced) for call in calls} == {(Errors.NONE, True)}
        beat.broker_epoch += 1
        assert Errors((await connection.send(beat)).error_code) is Errors.STALE_BROKER_EPOCH


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
@story
async def test_sasl_over_tls(mechanism: str, kafka: KafkaQuorum, ca: Path) -> None:
    port = kafka.nodes[0].ports["SECURE"]
    security = Security(client_tls(ca), Sasl(mechanism, "kcore", PASSWORD))
    async with await connect("127.0.0.1", port, security=security, limits=LIMITS) as connection:
        assert await leader_of(connection) == kafka.nodes[0].node_id
    wrong = Security(client_tls(ca), Sasl(mechanism, "kcore", "wrong"))
    with pytest.raises(AuthenticationError, match="SASL_AUTHENTICATION_FAILED"):
        await connect("127.0.0.1", port, security=wrong, limits=LIMITS)


@story
async def test_a_listener_that_asks_for_more(kafka: KafkaQuorum, ca: Path) -> None:
    port = kafka.nodes[0].ports["SECURE"]
    with pytest.raises((FrameError, DisconnectedError)):  # A TLS alert, if it still arrives.
        await connect("127.0.0.1", port, limits=LIMITS)
    async with await connect("127.0.0.1", port, security=Security(client_tls(ca)), limits=LIMITS) as connection:
        with pytest.raises(DisconnectedError):
            await leader_of(connection)
    with pytest.raises(AuthenticationError, match="certificate verify failed"):
        await connect("127.0.0.1", port, security=Security(client_tls()), limits=LIMITS)


@story
async def test_kafka_answers_a_too_new_api_versions_in_version_0(kafka: KafkaQuorum) -> None:
    """And closes the connection at any other version that it does not know, as our server does."""
    async with await connect("127.0.0.1", kafka.nodes[0].port, limits=LIMITS, ask_versions=False) as connection:
        for _ in range(2):
            answer = read_answer(99, await connection.send_bytes(18, 99, b"anything"))
            assert Errors(answer.error_code) is Errors.UNSUPPORTED_VERSION
            assert [row.api_key for row in answer.api_keys] == [18]
        with pytest.raises(DisconnectedError):
            await connection.send_bytes(55, 99, b"anything")
