"""Finds out which security protocol a listener requires, by connecting to the listener without credentials."""

import asyncio
import ssl
from contextlib import suppress

from kcore.errors import AuthenticationError, KcoreError
from kcore.net.address import network_errors
from kcore.net.connect import HANDSHAKE_VERSION, connect
from kcore.net.limits.connection_limits import Limits
from kcore.net.security.client_security import Security
from kcore.protocol_errors import Errors
from kcore.schema.sasl import SaslHandshakeRequest


async def required_protocol(host: str, port: int, limits: Limits, tls: ssl.SSLContext | None = None) -> str | None:
    """The security protocol of a listener; None if it does not answer.

    `tls`: the client's own context. "TLS" is SSL or SASL_SSL: the client has no context, or its handshake fails.
    """
    if not await _speaks_tls(host, port, limits):
        asks_sasl = await _asks_sasl(host, port, limits, Security())
        return None if asks_sasl is None else "SASL_PLAINTEXT" if asks_sasl else "PLAINTEXT"
    asks_sasl = None if tls is None else await _asks_sasl(host, port, limits, Security(tls))
    return "TLS" if asks_sasl is None else "SASL_SSL" if asks_sasl else "SSL"


async def _asks_sasl(host: str, port: int, limits: Limits, security: Security) -> bool | None:
    """Whether the listener requires SASL; None if it does not answer."""
    with suppress(KcoreError):
        async with await connect(host, port, limits=limits, security=security) as connection:
            with suppress(KcoreError):
                # A listener without SASL refuses the handshake as too late (KafkaApis), or does not know it.
                request = SaslHandshakeRequest(mechanism="PLAIN")
                answer = await connection.send(request, HANDSHAKE_VERSION, timeout_s=limits.connect_s)
                return bool(answer.error_code != Errors.ILLEGAL_SASL_STATE)
            return False
    return None


async def _speaks_tls(host: str, port: int, limits: Limits) -> bool:
    """Whether the listener answers a TLS handshake, if only with an alert; sends no request."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with network_errors(f"{host}:{port}", limits.connect_s):
            async with asyncio.timeout(limits.connect_s):
                _, writer = await asyncio.open_connection(host, port, ssl=context)
    except AuthenticationError as error:
        return "ALERT" in str(error).upper()
    except KcoreError:
        return False
    writer.transport.abort()
    return True
