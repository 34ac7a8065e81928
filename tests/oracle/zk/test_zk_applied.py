"""Real 3.9.1 brokers obey what kcore's controller wrote into znodes: settings, and who may log in and produce.

The rights of clients without a name, and quotas, are in `test_zk_mutations.py`.
"""

import asyncio
import base64
import hashlib
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

import pytest

from kcore.errors import AuthenticationError
from kcore.measure.processes.local_process import free_ports
from kcore.metadata.principal import KafkaPrincipal
from kcore.net.connect import connect
from kcore.net.connection import Connection
from kcore.net.request_context import ClientSession, RequestContext
from kcore.net.security.client_security import Sasl, Security
from kcore.protocol_errors import Errors
from kcore.schema.configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestAlterableConfig,
    IncrementalAlterConfigsRequestAlterConfigsResource,
)
from kcore.schema.delegation_tokens import (
    CreateDelegationTokenRequest,
    ExpireDelegationTokenRequest,
    RenewDelegationTokenRequest,
)
from kcore.schema.headers import RequestHeader
from kcore.schema.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kcore.schema.scram import AlterUserScramCredentialsRequest, ScramCredentialDeletion, ScramCredentialUpsertion
from kcore.schema.structure import Message
from kcore.server.zk_controller.zk_controller_server import ControllerServer
from net.loops import story
from oracle.kafka_tools import TOPICS, try_tool
from oracle.zk.test_zk_mutations import MODULE, PATIENT, WRITE, a_topic, ask, cluster, comes_to, create, delete, entry
from storage import building

SECRET: Final = {"delegation_token_secret_key": "a-key-of-the-cluster"}
TOPIC, BROKER = 2, 4
SET, REMOVE = 0, 1
TOKENS_SETTLE: Final = 60  # Tries of a tool that takes a second or more.


async def comes(holds: Callable[[], Awaitable[object]]) -> None:
    """Within seconds, as a broker reads a note."""
    async with asyncio.timeout(60):
        while not await holds():
            await asyncio.sleep(0.1)


async def altered(connection: Connection, kind: int, name: str, key: str, value: str | None) -> None:
    change = IncrementalAlterConfigsRequestAlterableConfig(
        name=key, config_operation=REMOVE if value is None else SET, value=value
    )
    resource = IncrementalAlterConfigsRequestAlterConfigsResource(
        resource_type=kind, resource_name=name, configs=[change]
    )
    response = await connection.send(IncrementalAlterConfigsRequest(resources=[resource], validate_only=False), 1)
    assert [(each.error_code, each.error_message) for each in response.responses] in ([(0, "")], [(0, None)])


async def produced(port: int, size: int) -> Errors:
    data = PartitionProduceData(index=0, records=building.batch(0, [bytes(size)]))
    request = ProduceRequest(acks=1, timeout_ms=5_000, topic_data=[TopicProduceData(name="t", partition_data=[data])])
    response = await ask(port, request, 9)
    return Errors(response.responses[0].partition_responses[0].error_code)


async def setting(port: int, kind: int, name: str, key: str) -> tuple[str | None, int]:
    """A broker's own word: the value, and where it is from."""
    resource = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=[key])
    [found] = (await ask(port, DescribeConfigsRequest(resources=[resource]), 4)).results
    [config] = found.configs
    return config.value, config.config_source


@story
async def test_settings_of_topics_and_brokers_take_effect() -> None:
    async with cluster() as (_, brokers, connection, _):
        await a_topic(connection)
        port = brokers[1].port
        await comes_to(port, Errors.NONE)
        for value, error in (("500", Errors.MESSAGE_TOO_LARGE), (None, Errors.NONE)):
            await altered(connection, TOPIC, "t", "max.message.bytes", value)
            await comes(lambda error=error: is_(produced(port, 2_000), error))  # type: ignore[misc]
        await altered(connection, TOPIC, "t", "retention.ms", "123456789")
        await comes(lambda: is_(setting(port, TOPIC, "t", "retention.ms"), ("123456789", 1)))
        # A default of all brokers: a broker checks and writes settings that are not the controller's own.
        await altered(connection, BROKER, "", "message.max.bytes", "400")
        await comes(lambda: is_(produced(port, 2_000), Errors.MESSAGE_TOO_LARGE))
        await altered(connection, BROKER, "", "message.max.bytes", None)
        await comes(lambda: is_(produced(port, 2_000), Errors.NONE))


async def is_(found: Awaitable[Any], wanted: Any) -> bool:
    return bool(await found == wanted)


async def password(connection: Connection, name: str, secret: str | None) -> None:
    """Sets it, or removes it."""
    request: Message
    if secret is None:
        request = AlterUserScramCredentialsRequest(deletions=[ScramCredentialDeletion(name=name, mechanism=1)])
    else:
        salt = hashlib.sha256(secret.encode()).digest()
        salted = hashlib.pbkdf2_hmac("sha256", secret.encode(), salt, 4096)
        upsertion = ScramCredentialUpsertion(name=name, mechanism=1, iterations=4096, salt=salt, salted_password=salted)
        request = AlterUserScramCredentialsRequest(upsertions=[upsertion], deletions=[])
    response = await connection.send(request, 0)
    assert [each.error_code for each in response.results] == [Errors.NONE]


async def is_let_in(port: int, name: str, secret: str) -> bool:
    try:
        security = Security(sasl=Sasl("SCRAM-SHA-256", name, secret))
        async with await connect("127.0.0.1", port, security=security, limits=PATIENT):
            return True
    except AuthenticationError:
        return False


@story
async def test_a_user_comes_in_with_the_new_password_and_a_removed_one_does_not() -> None:
    [sasl] = free_ports(1)
    async with cluster(config=SECRET, sasl_port=sasl) as (_, _, connection, _):
        assert not await is_let_in(sasl, "alice", "one")
        await password(connection, "alice", "one")
        await comes(lambda: is_let_in(sasl, "alice", "one"))
        await password(connection, "alice", "two")
        await comes(lambda: is_let_in(sasl, "alice", "two"))
        assert not await is_let_in(sasl, "alice", "one")
        await password(connection, "alice", None)
        await comes(lambda: is_let_in_no_more(sasl, "alice", "two"))


async def is_let_in_no_more(port: int, name: str, secret: str) -> bool:
    return not await is_let_in(port, name, secret)


@story
async def test_a_producer_that_has_logged_in_gets_and_loses_its_right() -> None:
    """It stays connected all the while."""
    [sasl] = free_ports(1)
    async with cluster(has_authorizer=True, config=SECRET, sasl_port=sasl) as (_, _, connection, _):
        await a_topic(connection)
        await password(connection, "alice", "one")
        await comes(lambda: is_let_in(sasl, "alice", "one"))
        security = Security(sasl=Sasl("SCRAM-SHA-256", "alice", "one"))
        async with await connect("127.0.0.1", sasl, security=security, limits=PATIENT) as alice:

            async def error() -> Errors:
                data = PartitionProduceData(index=0, records=building.batch(0, [b"a"]))
                topics = [TopicProduceData(name="t", partition_data=[data])]
                answer = await alice.send(ProduceRequest(acks=1, timeout_ms=5_000, topic_data=topics), 9)
                return Errors(answer.responses[0].partition_responses[0].error_code)

            await comes(lambda: is_(error(), Errors.TOPIC_AUTHORIZATION_FAILED))
            for _ in range(2):
                await create(connection, entry("t", WRITE, who="User:alice"))
                await comes(lambda: is_(error(), Errors.NONE))
                assert await delete(connection, "t") == 1
                await comes(lambda: is_(error(), Errors.TOPIC_AUTHORIZATION_FAILED))


async def decided(server: ControllerServer, who: str, request: Message, version: int) -> Any:
    """The controller's answer to a client that has authenticated."""
    session = ClientSession("PLAINTEXT", "127.0.0.1")
    session.authenticated(KafkaPrincipal(who))
    context = RequestContext("a test", 0, RequestHeader(request_api_version=version), session)
    response: Any = await server._handlers._handle(context, request)
    assert response.error_code == Errors.NONE
    return response


@story
async def test_a_token_authenticates_until_it_expires(tmp_path: Path) -> None:
    """With Kafka's own client: a token is shown by SCRAM."""
    [sasl] = free_ports(1)
    async with cluster(config=SECRET, sasl_port=sasl) as (_, _, connection, server):
        await password(connection, "alice", "one")
        await comes(lambda: is_let_in(sasl, "alice", "one"))
        token = await decided(server, "alice", CreateDelegationTokenRequest(renewers=[], max_lifetime_ms=-1), 3)
        hmac = base64.b64encode(token.hmac).decode()
        config = tmp_path / "token.properties"
        config.write_text(
            "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-256\n"
            f'sasl.jaas.config={MODULE} required username="{token.token_id}" password="{hmac}" tokenauth="true";\n'
        )

        async def tool() -> tuple[int, str]:
            where = ("--bootstrap-server", f"127.0.0.1:{sasl}", "--command-config", config)
            code, printed, complaints = await asyncio.to_thread(try_tool, TOPICS, *where, "--list")
            return code, printed + complaints

        async def until_printed(is_let_in: bool) -> None:
            for _ in range(TOKENS_SETTLE):
                code, printed = await tool()
                if (code == 0) is is_let_in:
                    assert is_let_in or "Authentication failed" in printed, printed
                    return
            pytest.fail(printed)

        await until_printed(True)
        await decided(server, "alice", RenewDelegationTokenRequest(hmac=token.hmac, renew_period_ms=3_600_000), 2)
        await until_printed(True)
        await decided(server, "alice", ExpireDelegationTokenRequest(hmac=token.hmac, expiry_time_period_ms=-1), 2)
        await until_printed(False)
