"""Nodes of a quorum without a controller, over SASL_SSL: they accept requests of each other and of no other client."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from kcore import schema as s
from kcore.cli.commands import app
from kcore.errors import AuthenticationError, DisconnectedError, NetworkError
from kcore.net.connect import connect
from kcore.net.security.client_security import Sasl, Security
from kcore.net.security.jaas import MODULES
from kcore.protocol_errors import Errors
from kcore.raft.log.memory_log import MemoryLog
from kcore.raft.node import REQUEST_HANDLERS
from kcore.schema.broker_lifecycle import BrokerHeartbeatRequest
from kcore.server.properties.security import client_security_of
from kcore.server.properties.values import SettingsError
from kcore.server.quorum_node.elections import MemoryElections
from kcore.server.quorum_node.quorum_listener_settings import QuorumListenerSettings, quorum_listener_settings
from kcore.server.quorum_node.quorum_server import QuorumServer
from net.authority import Authority, client_tls
from net.loops import story, until
from server.quorum_nodes import Nodes, Recorder, append, committed_everywhere

pytestmark = pytest.mark.usefixtures("either_answer_loop")
PASSWORD = "swordfish"
NAME = "CONTROLLER"
NO_OP = bytes([1, 20, 0, 0])  # A record of metadata.
REQUESTS = [*REQUEST_HANDLERS, s.DescribeClusterRequest, s.UpdateFeaturesRequest, BrokerHeartbeatRequest]


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


def properties(authority: Authority, protocol: str = "SASL_SSL", **others: str) -> dict[str, str]:
    return {
        "process.roles": "controller",
        "log.dirs": "/nowhere",
        "controller.listener.names": NAME,
        "listener.security.protocol.map": f"{NAME}:{protocol}",
        "super.users": "User:controller",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(authority.keystore("node")),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority.trusted),
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.controller.protocol": "PLAIN",
        "listener.name.controller.plain.sasl.jaas.config": f'{MODULES["PLAIN"]} required username="controller" '
        f'password="{PASSWORD}" user_controller="{PASSWORD}" user_visitor="{PASSWORD}";',
        **{name.replace("_", "."): value for name, value in others.items()},
    }


@asynccontextmanager
async def quorum(listeners: list[QuorumListenerSettings]) -> AsyncIterator[Nodes]:
    nodes = Nodes(len(listeners))
    async with AsyncExitStack() as stack:
        for voter, listener_settings in zip(nodes.voters, listeners, strict=True):
            recorder = Recorder()
            config = nodes.config(voter.key.id)
            server = QuorumServer(
                *(config, MemoryLog(), MemoryElections()),
                host="127.0.0.1",
                port=voter.endpoints[NAME].port,
                machine=recorder,
                stop_ms=500,
                security=listener_settings.security,
                super_users=listener_settings.super_users,
            )
            nodes.servers.append(await stack.enter_async_context(server))
            nodes.recorders.append(recorder)
        yield nodes


async def error_of(server: QuorumServer, security: Security, request: Any) -> Errors:
    async with await connect("127.0.0.1", server.port, security=security) as connection:
        return Errors.of((await connection.send(request)).error_code)


@story
async def test_nodes_know_each_other_and_others_are_refused(authority: Authority) -> None:
    listener_settings = quorum_listener_settings(properties(authority), NAME)
    async with quorum([listener_settings] * 3) as nodes:
        leader = await nodes.leader()
        epoch = leader.node.epoch
        appended = append(leader, [b"one", b"two"])
        await committed_everywhere(nodes, appended.expected_offset + 2)
        tls = client_tls(authority.trusted)
        for server in nodes.servers:
            for kind in REQUESTS:
                visitor = Security(tls, Sasl("PLAIN", "visitor", PASSWORD))
                assert await error_of(server, visitor, kind()) is Errors.CLUSTER_AUTHORIZATION_FAILED, kind.__name__
            node = Security(tls, Sasl("PLAIN", "controller", PASSWORD))
            assert await error_of(server, node, s.VoteRequest()) is not Errors.CLUSTER_AUTHORIZATION_FAILED
            with pytest.raises(AuthenticationError, match="Invalid username or password"):
                await error_of(server, Security(tls, Sasl("PLAIN", "controller", "wrong")), s.VoteRequest())
            with pytest.raises(DisconnectedError):
                await error_of(server, Security(tls), s.VoteRequest())
            with pytest.raises(NetworkError):
                await error_of(server, Security(), s.VoteRequest())
        assert leader.node.epoch == epoch and leader is await nodes.leader()


@story
async def test_certificates_alone_make_principals(authority: Authority) -> None:
    users = "User:CN=node,OU=tests,O=kcore"
    listener_settings = quorum_listener_settings(
        properties(authority, "SSL", super_users=users, ssl_client_auth="required"), NAME
    )
    async with quorum([listener_settings] * 2) as nodes:
        leader = await nodes.leader()
        await committed_everywhere(nodes, append(leader, [b"one"]).expected_offset + 1)
        stranger = Security(client_tls(authority.trusted, authority.keystore("stranger")))
        for kind in REQUESTS:
            assert await error_of(leader, stranger, kind()) is Errors.CLUSTER_AUTHORIZATION_FAILED, kind.__name__


@story
async def test_a_connection_of_a_stranger_is_never_the_compiled_loops(authority: Authority) -> None:
    """In plaintext everybody is ANONYMOUS: where that is no super user, no fetch is answered, in whichever way."""
    listener_settings = quorum_listener_settings(properties(authority, "PLAINTEXT"), NAME)
    async with quorum([listener_settings]) as nodes:
        leader = await nodes.leader()
        async with await connect("127.0.0.1", leader.port) as connection:
            for _ in range(3):
                answer = await connection.send(s.FetchRequest(replica_id=-1))
                assert answer.error_code == Errors.CLUSTER_AUTHORIZATION_FAILED


@story
async def test_certificates_that_are_replaced_are_for_new_peers(authority: Authority, tmp_path: Any) -> None:
    """One node is restarted with certificates of another authority: the others come to it once they trust that."""
    both = Authority(tmp_path / "others")
    keystore, trusted = tmp_path / "node.pem", tmp_path / "trusted.pem"
    keystore.write_bytes(authority.keystore("node").read_bytes())
    trusted.write_bytes(authority.trusted.read_bytes())
    given = {"ssl_keystore_location": str(keystore), "ssl_truststore_location": str(trusted)}
    listener_settings = quorum_listener_settings(properties(authority, **given), NAME)
    async with quorum([listener_settings] * 2) as nodes:
        leader = await nodes.leader()
        trusted.write_bytes(authority.trusted.read_bytes() + both.trusted.read_bytes())
        keystore.write_bytes(both.keystore("node").read_bytes())
        await asyncio.sleep(1.1)  # The files are looked at once a second.
        epoch = leader.node.epoch
        security = Security(client_tls(both.trusted), Sasl("PLAIN", "controller", PASSWORD))
        assert await error_of(leader, security, s.VoteRequest()) is not Errors.CLUSTER_AUTHORIZATION_FAILED
        for lane in [lane for each in nodes.servers for lane in each.runtime._effects._peers._lanes.values()]:
            if lane.connection is not None:
                lane.connection.abort()
        await until(lambda: all(each.node.leader_id > 0 for each in nodes.servers))
        leader = await nodes.leader()
        await committed_everywhere(nodes, append(leader, [b"one"]).expected_offset + 1)
        assert leader.node.epoch >= epoch


@story
async def test_describe_and_top_come_as_the_user_of_their_command_config(authority: Authority, tmp_path: Path) -> None:
    listener_settings = quorum_listener_settings(properties(authority), NAME)
    async with quorum([listener_settings] * 2) as nodes:
        leader = await nodes.leader()
        await committed_everywhere(nodes, append(leader, [NO_OP]).expected_offset + 1)
        where = f"127.0.0.1:{leader.port}"

        async def run(user: str, *arguments: str, password: str = PASSWORD) -> Result:
            path = tmp_path / f"{user}.properties"
            path.write_text(client(authority, user, password))
            return await asyncio.to_thread(CliRunner().invoke, app, [*arguments, "--command-config", str(path)])

        describe = ("quorum", "describe", "--bootstrap-controller", where, "--status")
        described = await run("controller", *describe)
        assert described.exit_code == 0 and "LeaderId" in described.output, described.output
        for user, password, why in (
            ("visitor", PASSWORD, "CLUSTER_AUTHORIZATION_FAILED"),
            ("controller", "wrong", "Invalid username or password"),
        ):
            refused = await run(user, *describe, password=password)
            assert refused.exit_code == 1 and why in refused.output
            assert PASSWORD not in refused.output and len(refused.output.splitlines()) == 1
        watched = await run("controller", "top", where, "--once", "--interval", "0.1", "--metrics", "none")
        assert watched.exit_code == 0 and "not read" not in watched.output, watched.output


def client(authority: Authority, user: str, password: str = PASSWORD, **others: str) -> str:
    """Properties of a client."""
    given = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority.trusted),
        "sasl.jaas.config": f'{MODULES["PLAIN"]} required username="{user}" password="{password}";',
        "request.timeout.ms": "60000",
        **{name.replace("_", "."): value for name, value in others.items()},
    }
    return "\n".join(f"{name}={value}" for name, value in given.items() if value)


@pytest.mark.parametrize(
    ("others", "expected"),
    [
        ({"security_protocol": "KERBEROS"}, "security.protocol=KERBEROS"),
        ({"sasl_mechanism": "GSSAPI"}, "sasl.mechanism=GSSAPI"),
        ({"sasl_jaas_config": ""}, "sasl.jaas.config is missing"),
        ({"sasl_jaas_config": f"{MODULES['PLAIN']} required;"}, "username and password are missing"),
        ({"sasl_login_class": "a.B"}, "sasl.login.class"),
        ({"ssl_truststore_type": "JKS"}, "ssl.truststore.type=JKS"),
        (
            {
                "sasl_mechanism": "SCRAM-SHA-256",
                "sasl_jaas_config": f'{MODULES["SCRAM-SHA-256"]} required username="a" password="b" tokenauth="true";',
            },
            "no delegation token",
        ),
    ],
)
def test_a_command_config_that_cannot_be(
    others: dict[str, str], expected: str, authority: Authority, tmp_path: Path
) -> None:
    path = tmp_path / "client.properties"
    path.write_text(client(authority, "controller", **others))
    arguments = ["quorum", "describe", "--bootstrap-controller", "a:1", "--status", "--command-config", str(path)]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 2 and expected in result.output and PASSWORD not in result.output


def test_a_client_in_plaintext_needs_nothing_more() -> None:
    assert client_security_of({"client.id": "a"}).outgoing() is None


def test_settings_that_cannot_be(authority: Authority) -> None:
    for others, why in (
        ({"super_users": ""}, "super.users is missing"),
        ({"super_users": "controller"}, "is not a principal"),
        ({"controller_listener_names": "OTHER"}, f"{NAME} is not among them"),
        ({"sasl_enabled_mechanisms": "GSSAPI"}, "GSSAPI"),
    ):
        with pytest.raises(SettingsError, match=why):
            quorum_listener_settings(properties(authority, **others), NAME)
    with pytest.raises(SettingsError, match=r"super\.users is missing"):
        quorum_listener_settings({"authorizer.class.name": "x", "log.dirs": "/nowhere"}, NAME)
    listener_settings = quorum_listener_settings({"log.dirs": "/nowhere"}, NAME)
    assert (listener_settings.security.protocol, listener_settings.super_users) == ("PLAINTEXT", None)
    assert PASSWORD not in str(quorum_listener_settings(properties(authority), NAME))
