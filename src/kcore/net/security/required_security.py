"""Finds out which security protocol a listener requires, by connecting to the listener without credentials."""

import asyncio
import ssl
from contextlib import suppress

from kcore.errors import KcoreError
from kcore.net.address import network_errors
from kcore.net.connect import HANDSHAKE_VERSION, connect
from kcore.net.limits.connection_limits import Limits
from kcore.protocol_errors import Errors
from kcore.schema.sasl import SaslHandshakeRequest


async def asked_security(host: str, port: int, limits: Limits) -> str | None:
    """Whether the listener requires "TLS" or "SASL"; None if it requires neither or does not answer."""
    if await _speaks_tls(host, port, limits):
        return "TLS"
    with suppress(KcoreError):
        async with await connect(host, port, limits=limits) as connection:
            # A listener without SASL refuses the handshake as too late (KafkaApis).
            answer = await connection.send(SaslHandshakeRequest(mechanism="PLAIN"), HANDSHAKE_VERSION)
            return None if answer.error_code == Errors.ILLEGAL_SASL_STATE else "SASL"
    return None


async def _speaks_tls(host: str, port: int, limits: Limits) -> bool:
    """Whether a TLS handshake with the listener succeeds; sends no request."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with network_errors(f"{host}:{port}", limits.connect_s):
            async with asyncio.timeout(limits.connect_s):
                _, writer = await asyncio.open_connection(host, port, ssl=context)
    except KcoreError:
        return False
    writer.transport.abort()
    return True
