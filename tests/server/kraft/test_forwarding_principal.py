"""A broker forwards a request with the principal and the address of the client's connection (KIP-590)."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from kcore.metadata.principal import ANONYMOUS, KafkaPrincipal
from kcore.metadata.table.broker_table import Endpoint
from kcore.net.connect import connect
from kcore.net.request_context import ClientSession
from kcore.net.security.client_security import MECHANISMS, Sasl, Security
from kcore.net.security.tls import TlsContext, TlsSettings
from kcore.net.server import RequestContext, serve
from kcore.schema.envelope import EnvelopeRequest
from kcore.schema.principal import DefaultPrincipalData
from kcore.schema.topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from kcore.server.broker.broker_connections import ControllerClient
from kcore.server.broker.forwarding import ControllerForwarding, address_bytes, principal_bytes
from kcore.server.envelopes import Forwarded, unwrapped, wrapped
from kcore.server.pipeline import RequestPipeline, Route
from kcore.wire.codec import decode
from net.authority import Authority, client_tls
from net.loops import story
from net.security.test_tls_listener import ALICE, listener

APIS = {"CreateTopics": (2, 7), "SaslHandshake": (0, 1), "SaslAuthenticate": (0, 2)}
CREATION = CreateTopicsRequest(topics=[CreatableTopic(name="t", num_partitions=1, replication_factor=1)])


@asynccontextmanager
async def broker_of(seen: list[Forwarded], **security: Any) -> AsyncIterator[int]:
    """The port of a broker with such a listener; what its controller is handed is in `seen`."""

    async def controller(context: RequestContext, request: EnvelopeRequest) -> Any:
        found = unwrapped(request)
        assert isinstance(found, Forwarded)
        seen.append(found)
        return await wrapped(found, CreateTopicsResponse())

    async def broker(context: RequestContext, request: Any) -> None:
        raise AssertionError("it is the controller's")

    async with await serve("127.0.0.1", 0, controller, {"Envelope": (0, 0)}) as server:
        client = ControllerClient("broker-1", lambda: Endpoint(server.port, "127.0.0.1", "PLAINTEXT", 0))
        policy = ControllerForwarding(client)
        pipeline = RequestPipeline(broker, lambda session: True, routes=[Route(policy.takes, policy.ask)])
        async with await serve("127.0.0.1", 0, broker, APIS, parts=pipeline.parts, **security) as handlers:
            yield handlers.port
        client.close()


async def principal_seen(security: Security | None, **listens: Any) -> KafkaPrincipal:
    seen: list[Forwarded] = []
    async with broker_of(seen, **listens) as port:
        connecting = connect("127.0.0.1", port, security=security, client_id="the client")
        async with await connecting as connection:
            await connection.send(CREATION)
    [forwarded] = seen
    assert (forwarded.client_address, forwarded.header.client_id) == ("127.0.0.1", "the client")
    assert not forwarded.is_token_authenticated
    return forwarded.principal


@story
async def test_who_shows_nothing_is_anonymous() -> None:
    assert await principal_seen(None) == ANONYMOUS


@pytest.mark.covers("KRaft D8")
@pytest.mark.parametrize("mechanism", MECHANISMS)
@story
async def test_who_authenticates_by_sasl_is_that_user(mechanism: str) -> None:
    own: Sasl = ALICE[mechanism]
    assert await principal_seen(Security(sasl=own), sasl=listener()) == KafkaPrincipal("alice")


@story
async def test_who_shows_a_certificate_is_its_subject(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    server = TlsSettings(str(authority.keystore("server")), truststore=str(authority.trusted), client_auth="required")
    shown = client_tls(authority.trusted, authority.keystore("client"))
    found = await principal_seen(Security(shown), tls=TlsContext(server, TlsSettings.server_context))
    assert found.name.startswith("CN=client")


def test_a_client_of_a_token_stays_one() -> None:
    session = ClientSession("SASL_SSL", "10.0.0.1", "SASL_SSL")
    session.authenticated(KafkaPrincipal("bob"), is_token=True)
    data = principal_bytes(session)
    assert data[:2] == bytes(2), "its version"
    assert decode(DefaultPrincipalData, 0, data[2:]) == DefaultPrincipalData(
        type="User", name="bob", token_authenticated=True
    )


@pytest.mark.parametrize(
    ("address", "size"), [("10.0.0.1", 4), ("::1", 16), ("fe80::1%eth0", 16), ("nobody yet", 4), ("", 4)]
)
def test_an_address_is_4_or_16_bytes(address: str, size: int) -> None:
    assert len(address_bytes(address)) == size
