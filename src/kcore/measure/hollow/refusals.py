"""Explains in one line why a controller and the client's TLS and SASL settings do not fit, and what to change."""

import ssl
from collections.abc import Callable
from typing import Final

from kcore.errors import AuthenticationError, DisconnectedError, KcoreError, TargetError
from kcore.net.limits.connection_limits import Limits
from kcore.net.security.client_security import Security
from kcore.net.security.listener_security import ListenerSecurity
from kcore.net.security.required_security import required_protocol

_NOT_TRUSTED: Final = "add the certificate of its authority to ssl.truststore.location"
_OTHER_NAME: Final = (
    "name a host of the certificate, or switch the check off by an empty ssl.endpoint.identification.algorithm"
)
# By OpenSSL's X509_V_ERR.
_OF_CERTIFICATES: Final = {
    9: "the controller's certificate is not valid yet: compare the clocks of both machines",
    10: "the controller's certificate has expired: it needs a new one",
    **dict.fromkeys((2, 18, 19, 20, 21), f"the controller's certificate is not trusted: {_NOT_TRUSTED}"),
    **dict.fromkeys((62, 64), f"the controller's certificate is for another host: {_OTHER_NAME}"),
}
_OWN: Final = "give ssl.keystore.location a valid certificate of an authority that the controllers trust"
# By a part of the error's text.
_OF_TEXTS: Final = {
    "SASL_AUTHENTICATION_FAILED": "check the username and the password in sasl.jaas.config",
    "UNSUPPORTED_SASL_MECHANISM": "set sasl.mechanism to one of them",
    "ILLEGAL_SASL_STATE": "the listener has no SASL: set security.protocol to SSL or PLAINTEXT",
    "CERTIFICATE_REQUIRED": f"the controller requires a client's certificate: {_OWN}",
    "ALERT": f"the controller refuses the client's certificate or its TLS versions: {_OWN}",
}


def explained(error: KcoreError, *, over_tls: bool = False) -> str:
    """The error's text, with what to change if a controller refuses TLS or SASL.

    `over_tls`: the connection was ready for requests after a TLS handshake.
    """
    cause = error.__cause__
    if isinstance(cause, ssl.SSLCertVerificationError) and cause.verify_code in _OF_CERTIFICATES:
        peer = str(error).partition(": ")[0]
        return f"{peer}: {_OF_CERTIFICATES[cause.verify_code]}"
    if over_tls and isinstance(error, DisconnectedError) and not isinstance(cause, OSError):
        return f"{error}: if the controller requires a client's certificate, {_OWN}"
    if not isinstance(error, AuthenticationError):
        return str(error)
    advice = next((advice for part, advice in _OF_TEXTS.items() if part in str(error).upper()), None)
    return str(error) if advice is None else f"{error}: {advice}"


async def mismatch(
    address: str, security: ListenerSecurity, outgoing: Callable[[], Security], limits: Limits
) -> str | None:
    """Why the listener at this address needs another security.protocol; None if the protocol fits, or is not known."""
    host, _, port = address.rpartition(":")
    found = await required_protocol(host.strip("[]"), int(port), limits, outgoing().tls)
    if found is None or found == security.protocol or (found == "TLS" and security.tls is not None):
        return None
    wanted = "SSL or SASL_SSL" if found == "TLS" else found
    return (
        f"the listener at {address} has {found}, and the hollow brokers have {security.protocol}: "
        f"set security.protocol={wanted} in the file of --command-config"
    )


def first_of(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The group's first exception; other KcoreErrors become a TargetError."""
    first = group.exceptions[0]
    if isinstance(first, KcoreError) and not isinstance(first, TargetError):
        return TargetError(f"the hollow brokers: {type(first).__name__}: {first}")
    return first
