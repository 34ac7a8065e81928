"""A client that knows nothing of a listener finds out which security it requires."""

import asyncio
from pathlib import Path
from random import Random
from typing import Any

import pytest

from kcore.errors import TargetError
from kcore.measure.hollow.quorum_client import Quorum
from kcore.measure.processes.local_process import free_ports
from kcore.net.limits.connection_limits import Limits
from kcore.net.security.required_security import required_protocol
from kcore.net.security.sasl_mechanisms import PlainUsers
from kcore.net.security.sasl_server import SaslListener
from kcore.net.security.tls import TlsContext, TlsSettings
from kcore.net.server import serve
from kcore.protocol_errors import Errors
from kcore.schema.sasl import SaslHandshakeRequest, SaslHandshakeResponse
from net.authority import Authority, client_tls
from net.loops import fenced, raw_server, story

QUICK = Limits(connect_s=5, request_s=5)
OF_SASL = {"SaslHandshake": (0, 1), "SaslAuthenticate": (0, 2)}


async def answer(context: Any, message: Any) -> Any:
    if isinstance(message, SaslHandshakeRequest):
        return SaslHandshakeResponse(error_code=Errors.ILLEGAL_SASL_STATE.value)
    return await fenced(context, message)


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
@pytest.mark.parametrize("over_tls", [False, True])
@pytest.mark.parametrize("has_sasl", [False, True])
@story
async def test_tls_and_sasl_are_named(has_sasl: bool, over_tls: bool, mechanism: str, tmp_path: Path) -> None:
    tls, authority = None, Authority(tmp_path)
    if over_tls:
        settings = TlsSettings(str(authority.keystore("server")))
        tls = TlsContext(settings, TlsSettings.server_context)
    sasl = SaslListener((mechanism,), lambda: 0, PlainUsers({})) if has_sasl else None
    wanted = f"SASL_{'SSL' if over_tls else 'PLAINTEXT'}" if has_sasl else "SSL" if over_tls else "PLAINTEXT"
    async with await serve("127.0.0.1", 0, answer, OF_SASL, tls=tls, sasl=sasl) as server:
        own = client_tls(authority.trusted)
        assert await required_protocol("127.0.0.1", server.port, QUICK, own) == wanted
        for stranger in (None, client_tls(Authority(tmp_path / "another").trusted)):
            found = await required_protocol("127.0.0.1", server.port, QUICK, stranger)
            assert found == ("TLS" if over_tls else wanted)
        target = Quorum([f"127.0.0.1:{server.port}"], random=Random(1))
        if wanted == "PLAINTEXT":
            with pytest.raises(TargetError, match="is no controller of a KRaft quorum"):
                await target.check_listens()
        else:
            said = "SSL or SASL_SSL" if over_tls else wanted
            with pytest.raises(TargetError, match=f"hollow brokers have PLAINTEXT: set security.protocol={said} in"):
                await target.check_listens()


@story
async def test_a_listener_that_answers_a_handshake_with_an_alert_speaks_tls() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(bytes.fromhex("15 0303 0002 02 28"))  # handshake_failure
        await writer.drain()
        await reader.read()

    async with raw_server(talk) as port:
        assert await required_protocol("127.0.0.1", port, QUICK) == "TLS"


@story
async def test_nobody_is_there() -> None:
    [port] = free_ports(1)
    assert await required_protocol("127.0.0.1", port, QUICK) is None
    async with await serve("127.0.0.1", 0, answer, {"BrokerHeartbeat": (0, 1)}) as server:
        assert await required_protocol("127.0.0.1", server.port, QUICK) == "PLAINTEXT", "it does not know SASL"
