"""Certificates and a user that are made for one run: the settings of its controllers and of its hollow brokers.

With SSL the hollow brokers have a client's certificate. With SASL they are a SCRAM-SHA-512 user; the controllers use
PLAIN among themselves, because a controller that starts without a leader knows no SCRAM user.
"""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from kcore.errors import PlanError, StorageError
from kcore.measure.hollow.secured import certificates
from kcore.measure.processes.controller_quorum import LISTENER
from kcore.net.request_context import PLAINTEXT
from kcore.net.security.jaas import MODULES
from kcore.net.security.listener_security import PROTOCOLS, ListenerSecurity
from kcore.server.properties.security import client_security_of
from kcore.server.properties.values import SettingsError
from kcore.storage.files import read_bytes
from kcore.storage.properties import parse_properties

_MECHANISM: Final = "SCRAM-SHA-512"
_USER, _CONTROLLER = "hollow-broker", "controller"
SECURE: Final = PROTOCOLS[1:]  # The protocols of controllers that a run starts with certificates or a user.
_PASSWORD_BYTES: Final = 16
_NEWLINE, _ESCAPED = "\n", r"\n"  # In a file of properties.


@dataclass(frozen=True, slots=True)
class RunSecurity:
    """The security of controllers that a run starts."""

    protocol: str = PLAINTEXT
    properties: str = field(default="", repr=False)  # More lines of server.properties.
    users: tuple[str, ...] = field(default=(), repr=False)  # Values of the format command's --add-scram.
    client: ListenerSecurity = field(default_factory=ListenerSecurity)  # for the hollow brokers

    @classmethod
    def made(cls, protocol: str) -> "RunSecurity":
        """Makes the certificates and the user that the protocol needs."""
        if protocol == PLAINTEXT:
            return cls()
        controllers: dict[str, str] = {}
        client = {"security.protocol": protocol}
        users: tuple[str, ...] = ()
        if protocol.endswith("SSL"):
            trusted, (server, broker) = certificates(_CONTROLLER, _USER)
            controllers |= _stores(trusted, server)
            client |= _trust(trusted)
            if protocol == "SSL":
                controllers["ssl.client.auth"] = "required"
                client |= _stores(trusted, broker)
        if protocol.startswith("SASL_"):
            password, own = (secrets.token_hex(_PASSWORD_BYTES) for _ in range(2))
            controllers |= _sasl(own)
            client |= {"sasl.mechanism": _MECHANISM, "sasl.jaas.config": _jaas(_MECHANISM, _USER, password)}
            users = (f"{_MECHANISM}=[name={_USER},password={password}]",)
        lines = "\n".join(f"{name}={value.replace(_NEWLINE, _ESCAPED)}" for name, value in controllers.items())
        return cls(protocol, lines, users, client_security_of(client))


def read_client(path: str) -> ListenerSecurity:
    """The settings in the file of --command-config; plaintext without a file. PlanError, one line without passwords."""
    if not path:
        return ListenerSecurity()
    try:
        return client_security_of(parse_properties(read_bytes(path)))
    except (OSError, StorageError, SettingsError) as error:
        raise PlanError(f"--command-config {path}: {error}") from None


def _trust(trusted: str) -> dict[str, str]:
    return {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": trusted}


def _stores(trusted: str, own: tuple[str, str]) -> dict[str, str]:
    chain, key = own
    return _trust(trusted) | {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": chain,
        "ssl.keystore.key": key,
    }


def _sasl(password: str) -> Mapping[str, str]:
    prefix = f"listener.name.{LISTENER.lower()}"
    plain = _jaas("PLAIN", _CONTROLLER, password).removesuffix(";")
    return {
        "sasl.enabled.mechanisms": f"PLAIN,{_MECHANISM}",
        "sasl.mechanism.controller.protocol": "PLAIN",
        f"{prefix}.plain.sasl.jaas.config": f'{plain} user_{_CONTROLLER}="{password}";',
        f"{prefix}.{_MECHANISM.lower()}.sasl.jaas.config": f"{MODULES[_MECHANISM]} required;",
    }


def _jaas(mechanism: str, user: str, password: str) -> str:
    return f'{MODULES[mechanism]} required username="{user}" password="{password}";'
