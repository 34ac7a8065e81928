"""Real brokers and Kafka's own tools over SASL_SSL, at kcore's KRaft controllers: who comes, and what each may do.

The controllers know each other by PLAIN; brokers, administrators and users come with SCRAM-SHA-512, whose credentials
are in the metadata log. The last test compares what kcore's and Kafka's controllers say to the same strangers.
"""

import asyncio
import re
import ssl
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from kcore import schema as s
from kcore.errors import AuthenticationError, NetworkError
from kcore.net.connect import connect
from kcore.net.connection import Connection
from kcore.net.limits.connection_limits import Limits
from kcore.net.security.client_security import Sasl, Security
from kcore.net.security.jaas import MODULES
from kcore.net.security.principal import principal_of_certificate
from kcore.protocol_errors import Errors
from kcore.raft.node import REQUEST_HANDLERS
from kcore.schema.scram import ScramCredentialUpsertion
from kcore.schema.structure import Message
from kcore.schema.topics import CreatableTopic
from kcore.schema.update_features import FeatureUpdateKey
from net.authority import Authority, client_tls, pem_of
from oracle.kafka_tools import ACLS, CONFIGS, CONSOLE_CONSUMER, METADATA_QUORUM, TOPICS
from oracle.kcore_brokers import until
from oracle.kraft.test_kraft_security import CONSOLE_PRODUCER
from oracle.kraft_clusters import KraftCluster

PASSWORD: Final = "correct-horse"
LIMITS: Final = Limits(connect_s=60, request_s=60)
USERS: Final = ("broker", "admin", "alice")
OF_BOTH: Final = """ssl.keystore.type=PEM
ssl.keystore.location={keystore}
ssl.truststore.type=PEM
ssl.truststore.location={trusted}
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:controller;User:broker;User:admin
"""
OF_CONTROLLERS: Final = """listener.security.protocol.map=CONTROLLER:SASL_SSL
sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-512
sasl.mechanism.controller.protocol=PLAIN
connections.max.reauth.ms=6000
listener.name.controller.plain.sasl.jaas.config={plain} required \
username="controller" password="{password}" user_controller="{password}" user_visitor="{password}";
listener.name.controller.scram-sha-512.sasl.jaas.config={scram} required;
"""
OF_BROKERS: Final = """listeners=SECURE://{address}
listener.security.protocol.map=CONTROLLER:SASL_SSL,SECURE:SASL_SSL
inter.broker.listener.name=SECURE
sasl.enabled.mechanisms=SCRAM-SHA-512
sasl.mechanism.inter.broker.protocol=SCRAM-SHA-512
sasl.mechanism.controller.protocol=SCRAM-SHA-512
listener.name.secure.scram-sha-512.sasl.jaas.config={scram} required username="broker" password="{password}";
listener.name.controller.scram-sha-512.sasl.jaas.config={scram} required username="broker" password="{password}";
"""


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


def cluster_of(
    authority: Authority, properties: str = "", users: Sequence[str] = USERS, **options: Any
) -> KraftCluster:
    """A cluster whose nodes all speak SASL_SSL. `properties`: of all of them, besides; `users`: who has a password."""
    both = OF_BOTH.format(keystore=authority.keystore("node"), trusted=authority.trusted) + properties
    words = {"plain": MODULES["PLAIN"], "scram": MODULES["SCRAM-SHA-512"], "password": PASSWORD}
    of_brokers = OF_BROKERS.replace("{address}", "{{address}}").format(**words) + both
    scram = [f"SCRAM-SHA-512=[name={name},password={PASSWORD}]" for name in users]
    return KraftCluster(
        properties=OF_CONTROLLERS.format(**words) + both,
        of_brokers=of_brokers,
        options=[option for each in scram for option in ("--add-scram", each)],
        **options,
    )


@pytest.fixture(scope="module")
def cluster(authority: Authority) -> Iterator[KraftCluster]:
    with cluster_of(authority, controllers=3, brokers=3) as started:
        yield started


def as_user(cluster: KraftCluster, authority: Authority, name: str, password: str = PASSWORD) -> tuple[object, ...]:
    """An option of a tool that comes as that user."""
    config = cluster.folder / f"{name}-{password}.properties"
    config.write_text(
        "security.protocol=SASL_SSL\nsasl.mechanism=SCRAM-SHA-512\nssl.truststore.type=PEM\n"
        f"ssl.truststore.location={authority.trusted}\n"
        f'sasl.jaas.config={MODULES["SCRAM-SHA-512"]} required username="{name}" password="{password}";\n'
    )
    return ("--command-config", config)


def at_brokers(cluster: KraftCluster, authority: Authority, name: str, password: str = PASSWORD) -> tuple[object, ...]:
    return ("--bootstrap-server", cluster.bootstrap, *as_user(cluster, authority, name, password))


def at_controllers(
    cluster: KraftCluster, authority: Authority, name: str, password: str = PASSWORD
) -> tuple[object, ...]:
    return ("--bootstrap-controller", cluster.controller_bootstrap, *as_user(cluster, authority, name, password))


def test_brokers_register_and_replicate(cluster: KraftCluster, authority: Authority) -> None:
    admin = at_brokers(cluster, authority, "admin")
    cluster.tool(TOPICS, *admin, "--create", "--topic", "t", "--partitions", 3, "--replication-factor", 3)
    printed = cluster.tool(TOPICS, *admin, "--describe", "--topic", "t")
    assert printed.count("Leader: ") == 3 and "Leader: none" not in printed
    values = [f"v{number}" for number in range(10)]
    cluster.tool(CONSOLE_PRODUCER, *admin, "--topic", "t", given="\n".join([*values, ""]))
    read = ("--from-beginning", "--max-messages", 10, "--timeout-ms", 60_000)
    assert sorted(cluster.tool(CONSOLE_CONSUMER, *admin, "--topic", "t", *read).split()) == values


def test_rights_are_required_and_refusals_are_answered(cluster: KraftCluster, authority: Authority) -> None:
    """By way of brokers, whose envelopes carry the user's name, and at controllers."""
    admin, alice = (at_brokers(cluster, authority, name) for name in ("admin", "alice"))
    creates = (TOPICS, *alice, "--create", "--topic", "alices")
    code, printed, complaints = cluster.try_tool(*creates)
    assert code != 0 and "TopicAuthorizationException" in printed + complaints
    for way in (at_brokers, at_controllers):
        output = refused(cluster, ACLS, *way(cluster, authority, "alice"), "--list")
        assert "ClusterAuthorizationException" in output
    rule = ("--allow-principal", "User:alice", "--topic", "alices", "--operation", "Create")
    cluster.tool(ACLS, *at_controllers(cluster, authority, "admin"), "--add", *rule)
    until(lambda: cluster.try_tool(*creates)[0] == 0, lambda: "alice may not create", within_s=120)
    assert "alices" in cluster.tool(TOPICS, *admin, "--list")
    output = refused(cluster, METADATA_QUORUM, *at_controllers(cluster, authority, "alice"), "describe", "--status")
    assert "ClusterAuthorizationException" in output
    output = cluster.tool(METADATA_QUORUM, *at_controllers(cluster, authority, "admin"), "describe", "--status")
    assert output.count('"id"') >= 3 or "CurrentVoters" in output


def refused(cluster: KraftCluster, main: str, *arguments: object) -> str:
    code, printed, complaints = cluster.try_tool(main, *arguments)
    assert code != 0, printed
    return printed + complaints


def test_a_new_user_comes_to_controllers_and_a_removed_one_does_not(
    cluster: KraftCluster, authority: Authority
) -> None:
    admin = at_brokers(cluster, authority, "admin")
    bob = ("--entity-type", "users", "--entity-name", "bob")
    cluster.tool(CONFIGS, *admin, "--alter", *bob, "--add-config", f"SCRAM-SHA-512=[password={PASSWORD}]")

    def listed(password: str = PASSWORD) -> str:
        return refused(cluster, ACLS, *at_controllers(cluster, authority, "bob", password), "--list")

    until(lambda: "ClusterAuthorizationException" in listed(), listed, within_s=120)
    assert "SaslAuthenticationException" in listed("wrong")
    cluster.tool(CONFIGS, *admin, "--alter", *bob, "--delete-config", "SCRAM-SHA-512")
    until(lambda: "SaslAuthenticationException" in listed(), listed, within_s=120)


def test_another_controller_takes_over(cluster: KraftCluster, authority: Authority) -> None:
    """Whichever was active, one of these was it."""
    admin = at_brokers(cluster, authority, "admin")
    for number, node in enumerate(cluster.controllers):
        assert node.terminate() == 0
        cluster.tool(TOPICS, *admin, "--create", "--topic", f"after-{number}", "--replication-factor", 3)
        node.start()


def test_nobody_complained(cluster: KraftCluster) -> None:
    for node in cluster.controllers:
        text = node.log.read_text()
        assert " ERROR " not in text and "Traceback" not in text and PASSWORD not in text
        assert "its session has expired" not in text, "brokers and controllers authenticate again in time"


# The same strangers at kcore's controller and at Kafka's.


async def whole_answer(asking: Any) -> str:
    """An answer, or how the connection ended."""
    try:
        answer = await asking
    except AuthenticationError as error:
        return f"AuthenticationError {str(error).partition(': ')[2]}"
    except NetworkError as error:
        return type(error).__name__
    code = getattr(answer, "error_code", None)
    message = getattr(answer, "error_message", None)
    return f"{None if code is None else Errors.of(code).name} {message or ''}".strip()


async def comes(port: int, tls: Any, mechanism: str, name: str, password: str) -> str:
    """The outcome of a client's authentication: "let in", or the error that it gets."""
    try:
        security = Security(tls, Sasl(mechanism, name, password))
        async with await connect("127.0.0.1", port, security=security, limits=LIMITS):
            return "let in"
    except AuthenticationError as error:
        return str(error).replace(str(port), "PORT")


async def says(port: int, tls: Any, *messages: tuple[Message, int]) -> list[str]:
    """The answers to the messages of a client that has not authenticated."""
    answers = []
    async with await connect("127.0.0.1", port, security=Security(tls), limits=LIMITS, ask_versions=False) as stranger:
        for message, version in messages:
            answers.append(await whole_answer(asked(stranger, message, version)))
            if answers[-1] == "DisconnectedError":
                break
    return answers


async def asked(connection: Connection, message: Message, version: int | None = None) -> Any:
    return await connection.send(message, version)


OF_JAVA: Final = r"Request Request\(.*\)"  # Kafka shows its own object in place of the principal.
VERSIONS: Final = (s.ApiVersionsRequest(client_software_name="a", client_software_version="1"), 4)
NAMELESS: Final = (s.ApiVersionsRequest(client_software_name="-", client_software_version="1"), 4)
MECHANISM: Final = (s.SaslHandshakeRequest(mechanism="PLAIN"), 1)
TALKS: Final[dict[str, tuple[tuple[Message, int], ...]]] = {
    "another request at first": ((s.VoteRequest(), 2),),
    "a token at first": ((s.SaslAuthenticateRequest(auth_bytes=b"\0a\0b"), 2),),
    "versions twice": (VERSIONS, VERSIONS),
    "versions without a name, then with one": (NAMELESS, VERSIONS, MECHANISM),
    "versions, then another request": (VERSIONS, (s.DescribeClusterRequest(endpoint_type=2), 1)),
    "a mechanism that is not enabled": ((s.SaslHandshakeRequest(mechanism="SCRAM-SHA-256"), 1),),
    "a mechanism that there is not": (VERSIONS, (s.SaslHandshakeRequest(mechanism="x" * 1000), 0)),
    "two handshakes": (MECHANISM, MECHANISM),
    "versions during the exchange": (MECHANISM, VERSIONS),
    "no token": (MECHANISM, (s.SaslAuthenticateRequest(auth_bytes=b""), 2)),
    "half a token": (MECHANISM, (s.SaslAuthenticateRequest(auth_bytes=b"\0controller"), 2)),
    "no name": (MECHANISM, (s.SaslAuthenticateRequest(auth_bytes=b"\0\0b"), 1)),
    "no password": (MECHANISM, (s.SaslAuthenticateRequest(auth_bytes=b"\0controller\0"), 1)),
    "four texts": (MECHANISM, (s.SaslAuthenticateRequest(auth_bytes=f"\0controller\0{PASSWORD}\0".encode()), 2)),
    "six texts": (MECHANISM, (s.SaslAuthenticateRequest(auth_bytes=bytes(5)), 2)),
    "another authorization id": (
        MECHANISM,
        (s.SaslAuthenticateRequest(auth_bytes=f"a\0controller\0{PASSWORD}".encode()), 0),
    ),
    "SCRAM that asks for a channel": (
        (s.SaslHandshakeRequest(mechanism="SCRAM-SHA-512"), 1),
        (s.SaslAuthenticateRequest(auth_bytes=b"p=tls-unique,,n=alice,r=abc"), 2),
    ),
    "SCRAM without a nonce": (
        (s.SaslHandshakeRequest(mechanism="SCRAM-SHA-512"), 1),
        (s.SaslAuthenticateRequest(auth_bytes=b"n,,n=alice"), 2),
    ),
    "SCRAM with another authorization id": (
        (s.SaslHandshakeRequest(mechanism="SCRAM-SHA-512"), 1),
        (s.SaslAuthenticateRequest(auth_bytes=b"n,a=bob,n=alice,r=abc"), 2),
    ),
    "SCRAM with a final message that is none": (
        (s.SaslHandshakeRequest(mechanism="SCRAM-SHA-512"), 1),
        (s.SaslAuthenticateRequest(auth_bytes=b"n,,n=alice,r=abc"), 2),
        (s.SaslAuthenticateRequest(auth_bytes=b"c=biws,r=abc,p=AAAA"), 2),
    ),
    "a token that is none": (
        (s.SaslHandshakeRequest(mechanism="SCRAM-SHA-512"), 1),
        (s.SaslAuthenticateRequest(auth_bytes=b"n,,n=alice,r=abc,tokenauth=true"), 2),
    ),
}
COMERS: Final = {
    f"{mechanism} {name} {password}": (mechanism, name, password)
    for mechanism in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
    for name in ("visitor", "alice", "nobody")
    for password in (PASSWORD, "wrong")
}
REQUESTS: Final[dict[str, Callable[[], Message]]] = {
    **{kind.__name__: kind for kind in REQUEST_HANDLERS if kind is not s.FetchRequest},
    "CreateTopics": lambda: s.CreateTopicsRequest(
        topics=[CreatableTopic(name="t", num_partitions=1, replication_factor=1)]
    ),
    "DescribeAcls": lambda: s.DescribeAclsRequest(resource_type_filter=1, pattern_type_filter=1, operation=1),
    "AlterUserScramCredentials": lambda: s.AlterUserScramCredentialsRequest(
        upsertions=[ScramCredentialUpsertion(name="a", mechanism=1, iterations=4096)]
    ),
    "UpdateFeatures": lambda: s.UpdateFeaturesRequest(
        feature_updates=[FeatureUpdateKey(feature="metadata.version", max_version_level=30)]
    ),
    "UnregisterBroker": lambda: s.UnregisterBrokerRequest(broker_id=1),
    "Envelope": lambda: s.EnvelopeRequest(request_data=b"", request_principal=b"", client_host_address=bytes(4)),
    "ControllerRegistration": lambda: s.ControllerRegistrationRequest(controller_id=1),
    "AllocateProducerIds": lambda: s.AllocateProducerIdsRequest(broker_id=1),
    "CreateDelegationToken": lambda: s.CreateDelegationTokenRequest(),
    "a handshake again": lambda: s.SaslHandshakeRequest(mechanism="PLAIN"),
    "a token again": lambda: s.SaslAuthenticateRequest(auth_bytes=b"\0a\0b"),
}


async def all_answers(port: int, ca: Path) -> dict[str, Any]:
    """The answers to all these clients, by name."""
    tls = client_tls(ca)
    answers: dict[str, Any] = {name: await comes(port, tls, *who) for name, who in COMERS.items()}
    answers |= {name: await says(port, tls, *talk) for name, talk in TALKS.items()}
    for name, request in REQUESTS.items():
        security = Security(tls, Sasl("PLAIN", "visitor", PASSWORD))
        async with await connect("127.0.0.1", port, security=security, limits=LIMITS) as visitor:
            answer = await parts_of(visitor, request())
            answers[f"{name} of a user without rights"] = answer
    return answers


async def parts_of(connection: Connection, request: Message) -> str:
    """The answer's errors, at its top and in its first items."""
    try:
        answer = await connection.send(request)
    except NetworkError as error:
        return type(error).__name__
    lists = [value for each in type(answer).__slots__ if isinstance(value := getattr(answer, each, None), list)]
    parts = [answer, *(each[0] for each in lists if each)]
    return re.sub(
        OF_JAVA,
        "Principal User:visitor",
        "; ".join(
            f"{Errors.of(each.error_code).name} {getattr(each, 'error_message', None) or ''}".strip()
            for each in parts
            if hasattr(each, "error_code")
        ),
    )


def test_kcore_and_kafka_say_the_same_to_strangers(authority: Authority) -> None:
    answers = {}
    for name, real in (("kcore", ()), ("Kafka", (101,))):
        with cluster_of(authority, controllers=1, brokers=0, real=real) as alone:
            port = alone.controllers[0].port
            who = "127.0.0.1", port, Security(client_tls(authority.trusted), Sasl("SCRAM-SHA-512", "alice", PASSWORD))
            until(lambda who=who: asyncio.run(is_let_in(*who)), lambda: "alice is not known", within_s=120)
            answers[name] = asyncio.run(all_answers(port, authority.trusted))
    different = {key: (answers["kcore"][key], answers["Kafka"][key]) for key in answers["Kafka"]}
    wrong = [f"{key}: kcore {one}, Kafka {other}" for key, (one, other) in different.items() if one != other]
    assert not wrong, "\n".join(wrong)
    assert len(different) == len(COMERS) + len(TALKS) + len(REQUESTS)


async def is_let_in(host: str, port: int, security: Security) -> bool:
    try:
        async with await connect(host, port, security=security, limits=LIMITS):
            return True
    except NetworkError:
        return False


SUBJECTS: Final = (
    {"common_name": "plain", "organization_name": "kcore"},
    {"common_name": 'al=ice, #1 + "x" <y> \\z', "organization_name": " two  spaces", "organization_unit_name": "#d"},
    {"common_name": "J\u00fcrgen \u00d8", "organization_name": "\u4e2d", "organization_unit_name": "a/b=c"},
)
OF_CERTIFICATES: Final = """listener.security.protocol.map=CONTROLLER:SSL
ssl.client.auth=required
super.users={super_users}
"""


def test_the_subject_of_a_certificate_is_a_principal_as_kafka_prints_it(authority: Authority, tmp_path: Path) -> None:
    """A super user by the name that kcore makes of the certificate is one at Kafka's controller, too."""
    paths = [tmp_path / f"{number}.pem" for number in range(len(SUBJECTS))]
    for path, subject in zip(paths, SUBJECTS, strict=True):
        path.write_bytes(pem_of(authority.ca.issue_cert("localhost", "127.0.0.1", **subject)))
    names = [str(principal_of_certificate(ssl._ssl._test_decode_cert(str(path)))) for path in paths]  # type: ignore[attr-defined]
    assert names[0].startswith("User:CN=plain,OU=")
    both = OF_BOTH.format(keystore=paths[0], trusted=authority.trusted)
    users = ";".join(names).replace("\\", "\\\\")
    escaped = "".join(each if each.isascii() else f"\\u{ord(each):04x}" for each in users)
    properties = both + OF_CERTIFICATES.format(super_users=escaped)
    for real in ((), (101,)):
        with KraftCluster(controllers=1, brokers=0, properties=properties, real=real) as alone:
            port = alone.controllers[0].port
            for path, name in zip(paths, names, strict=True):
                tls = Security(client_tls(authority.trusted, path))
                until(partial(may_see_acls, port, tls), partial(str, name), within_s=60)
            stranger = Security(client_tls(authority.trusted, authority.keystore("stranger")))
            assert not may_see_acls(port, stranger)


def may_see_acls(port: int, security: Security) -> bool:
    async def ask() -> int:
        request = s.DescribeAclsRequest(resource_type_filter=1, pattern_type_filter=1, operation=1, permission_type=1)
        async with await connect("127.0.0.1", port, security=security, limits=LIMITS) as connection:
            return int((await connection.send(request)).error_code)

    return asyncio.run(ask()) == 0
