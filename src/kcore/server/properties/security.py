"""Reads TLS and SASL of a listener from server.properties. `listener.name.NAME.` settings override the others.

Source: ChannelBuilders, BrokerSecurityConfigs, SslConfigs, SaslConfigs, DefaultSslEngineFactory of 4.3.1.
"""

from collections.abc import Mapping
from typing import Final, cast

from kcore.net.request_context import PLAINTEXT
from kcore.net.security.client_security import MECHANISMS
from kcore.net.security.jaas import JaasError, Login, login_of
from kcore.net.security.listener_security import PROTOCOLS, ListenerSecurity
from kcore.net.security.sasl_server import FAILURE_DELAY_S, LARGEST_RECEIVE
from kcore.net.security.tls import CLIENT_AUTH, VERSIONS, ClientAuth, TlsError, TlsSettings
from kcore.server.properties.values import SettingsError, items, listed, value_of

JAAS: Final = "sasl.jaas.config"
OF_CONTROLLERS: Final = "sasl.mechanism.controller.protocol"
OF_BROKERS: Final = "sasl.mechanism.inter.broker.protocol"
MECHANISM: Final = "sasl.mechanism"  # The mechanism of a client.
MAX_REAUTH: Final = "connections.max.reauth.ms"
DELAY: Final = "connection.failed.authentication.delay.ms"
PEM: Final = "PEM"
_STORE_NAMES: Final = """
    ssl.keystore.type ssl.keystore.location ssl.keystore.password ssl.keystore.certificate.chain ssl.keystore.key
    ssl.key.password ssl.truststore.type ssl.truststore.location ssl.truststore.password ssl.truststore.certificates
"""
_OTHER_NAMES: Final = """
    ssl.client.auth ssl.enabled.protocols ssl.protocol ssl.endpoint.identification.algorithm
    ssl.principal.mapping.rules ssl.allow.dn.changes ssl.allow.san.changes sasl.enabled.mechanisms
    sasl.mechanism.controller.protocol sasl.mechanism.inter.broker.protocol sasl.server.max.receive.size
"""
_READ: Final = frozenset(_STORE_NAMES.split() + _OTHER_NAMES.split())
_OF_MECHANISM: Final = frozenset({JAAS, MAX_REAUTH})
_CONVERT: Final = (
    "kcore reads PEM alone: `keytool -importkeystore -srckeystore FILE -destkeystore f.p12 -deststoretype PKCS12`, "
    "`openssl pkcs12 -in f.p12 -out f.pem -noenc`, and ssl.{store}.type=PEM"
)


class _Given:
    """The settings that apply to one listener, or to a client."""

    def __init__(self, given: Mapping[str, str], listener: str | None) -> None:
        """`listener`: its name; None for a client."""
        self.prefix = "" if listener is None else f"listener.name.{listener.lower()}."
        self._given = given

    def get(self, name: str, default: str | None = None) -> str | None:
        """The listener's own value, or that of all listeners. An empty value counts as missing."""
        return self._given.get(self.prefix + name) or self._given.get(name) or default

    def own(self, name: str) -> str | None:
        """The listener's own value; None if it is missing or empty."""
        return self._given.get(self.prefix + name) or None

    def text(self, name: str) -> str | None:
        """As `get`, for a setting whose empty value has a meaning."""
        return self._given.get(self.prefix + name, self._given.get(name))

    def shown(self, name: str) -> str:
        """The setting's name in the file; it has the listener's prefix if the file has the setting with this prefix."""
        return self.prefix + name if self.prefix + name in self._given else name

    def check_names(self) -> None:
        """SettingsError for TLS and SASL settings that kcore does not have and must not ignore."""
        for given in self._given:
            name, mechanism = given, ""
            if given.startswith(self.prefix):
                name = given.removeprefix(self.prefix)
                for each in MECHANISMS:
                    if name.startswith(f"{each.lower()}."):
                        name, mechanism = name.removeprefix(f"{each.lower()}."), each
            if name == JAAS and not mechanism:
                raise SettingsError(f"{given}: give {self.prefix}MECHANISM.{JAAS}, as in scram-sha-512.{JAAS}")
            is_known = name in (_OF_MECHANISM if mechanism else _READ)
            if name.startswith(("ssl.", "sasl.")) and not is_known:
                raise SettingsError(f"{given}: kcore has PLAIN and SCRAM, and TLS by OpenSSL, without this setting")


def protocol_of(given: Mapping[str, str], listener: str, *, is_controllers: bool = True) -> str:
    """The SecurityProtocol of a listener (AbstractKafkaConfig.effectiveListenerSecurityProtocolMap).

    `is_controllers`: the listener is in controller.listener.names.
    """
    name = "listener.security.protocol.map"
    protocols = {}
    for each in listed(given, name):
        key, _, protocol = each.partition(":")
        protocols[key.strip().upper()] = protocol.strip().upper()
    # Kafka's default map has the names of the protocols. A controllers' listener with another name is plaintext.
    default = listener if listener in PROTOCOLS else PLAINTEXT if is_controllers else ""
    protocol = protocols.get(listener.upper(), "" if protocols and listener != PLAINTEXT else default)
    if protocol not in PROTOCOLS:
        raise SettingsError(f"{name}={given.get(name, '')}: give {listener} one of {', '.join(PROTOCOLS)}")
    return protocol


def security_of(
    given: Mapping[str, str], listener: str, own: str | None = OF_CONTROLLERS, *, is_controllers: bool = True
) -> ListenerSecurity:
    """The TLS and SASL settings of a listener; SettingsError with one line that shows no password.

    `own`: the setting with the mechanism that this node uses to connect to other nodes; None: it does not connect.
    """
    of_listener, protocol = _checked(given, listener), protocol_of(given, listener, is_controllers=is_controllers)
    rules = of_listener.get("ssl.principal.mapping.rules", "DEFAULT")
    if rules != "DEFAULT":
        raise SettingsError(f"{of_listener.shown('ssl.principal.mapping.rules')}={rules}: kcore has only DEFAULT")
    has_sasl = protocol.startswith("SASL_")
    tls = _tls(of_listener, has_sasl=has_sasl) if protocol.endswith("SSL") else None
    if not has_sasl:
        return ListenerSecurity(tls)
    mechanisms = tuple(items(of_listener.get("sasl.enabled.mechanisms", "GSSAPI")))
    for each in mechanisms:
        if each not in MECHANISMS:
            raise SettingsError(f"{of_listener.shown('sasl.enabled.mechanisms')}={each}: {_MECHANISMS}")
    own_mechanism = None if own is None else _own_mechanism(of_listener, own)
    logins = {each: _login(of_listener, each) for each in (*mechanisms, own_mechanism) if each is not None}
    _check_own(of_listener, logins, own_mechanism)
    return ListenerSecurity(
        tls,
        mechanisms,
        logins,
        own_mechanism,
        {each: _max_reauth_ms(of_listener, each) for each in mechanisms},
        _number(of_listener, "sasl.server.max.receive.size", LARGEST_RECEIVE),
        value_of(DELAY, given[DELAY]) / 1000 if DELAY in given else FAILURE_DELAY_S,
    )


def outgoing_of(given: Mapping[str, str], listener: str) -> ListenerSecurity:
    """The settings for a broker's connections to the controllers' listener; SettingsError."""
    of_listener, protocol = _checked(given, listener), protocol_of(given, listener)
    has_sasl = protocol.startswith("SASL_")
    tls = _tls(of_listener, has_sasl=has_sasl, is_server=False) if protocol.endswith("SSL") else None
    if not has_sasl:
        return ListenerSecurity(tls)
    mechanism = _own_mechanism(of_listener, OF_CONTROLLERS)
    logins = {mechanism: _login(of_listener, mechanism)}
    _check_own(of_listener, logins, mechanism)
    return ListenerSecurity(tls, logins=logins, own_mechanism=mechanism)


def _checked(given: Mapping[str, str], listener: str) -> _Given:
    of_listener = _Given(given, listener)
    of_listener.check_names()
    return of_listener


def _own_mechanism(of_listener: _Given, own: str) -> str:
    mechanism = of_listener.get(own, "GSSAPI")
    if mechanism not in MECHANISMS:
        raise SettingsError(f"{of_listener.shown(own)}={mechanism}: {_MECHANISMS}")
    return mechanism


def _check_own(of_listener: _Given, logins: Mapping[str, Login], mechanism: str | None) -> None:
    if mechanism is not None and logins[mechanism].own is None:
        name = f"{of_listener.prefix}{mechanism.lower()}.{JAAS}"
        raise SettingsError(f"{name}: username and password are missing; this node connects to other nodes with them")


_MECHANISMS: Final = f"kcore has {', '.join(MECHANISMS)}"


def _number(of_listener: _Given, name: str, default: int) -> int:
    text = of_listener.get(name)
    return default if text is None else int(value_of(name, text, of_listener.shown(name)))


def _max_reauth_ms(of_listener: _Given, mechanism: str) -> int:
    own = f"{mechanism.lower()}.{MAX_REAUTH}"
    text = of_listener.own(own)
    name = own if text is not None else MAX_REAUTH
    text = text or of_listener.get(MAX_REAUTH, "0")
    assert text is not None
    return int(value_of(MAX_REAUTH, text, of_listener.shown(name)))


def _login(of_listener: _Given, mechanism: str) -> Login:
    name = f"{mechanism.lower()}.{JAAS}"
    text = of_listener.own(name)
    if text is None:
        raise SettingsError(f"{of_listener.prefix}{name} is missing")
    try:
        return login_of(text, mechanism)
    except JaasError as error:
        raise SettingsError(f"{of_listener.prefix}{name}: {error}") from None


def _tls(of_listener: _Given, *, has_sasl: bool, is_server: bool = True) -> TlsSettings:
    keystore = _store(of_listener, "keystore", "ssl.keystore.certificate.chain")
    truststore = _store(of_listener, "truststore", "ssl.truststore.certificates")
    chain, key = of_listener.get("ssl.keystore.certificate.chain"), of_listener.get("ssl.keystore.key")
    if (chain is None) != (key is None):
        raise SettingsError("give both ssl.keystore.certificate.chain and ssl.keystore.key")
    if keystore is None and chain is None and is_server:
        raise SettingsError(f"{of_listener.prefix}ssl.keystore.location is missing: a server needs a certificate")
    # With SASL, clients need a certificate only if the listener's own setting says so (ChannelBuilders).
    client_auth = of_listener.own("ssl.client.auth") if has_sasl else of_listener.get("ssl.client.auth")
    client_auth = client_auth or "none"
    if client_auth not in CLIENT_AUTH:
        raise SettingsError(f"ssl.client.auth={client_auth}: give {', '.join(CLIENT_AUTH)}")
    versions = tuple(items(of_listener.get("ssl.enabled.protocols", ",".join(VERSIONS))))
    for each in versions:
        if each not in VERSIONS:
            raise SettingsError(f"ssl.enabled.protocols={each}: kcore has {', '.join(VERSIONS)}")
    settings = TlsSettings(
        *(keystore, chain, key, of_listener.get("ssl.key.password")),
        *(truststore, of_listener.get("ssl.truststore.certificates")),
        cast(ClientAuth, client_auth),
        versions or tuple(VERSIONS),
        _verifies_name(of_listener),
    )
    try:
        settings.client_context()
        if is_server:
            settings.server_context()
    except TlsError as error:
        raise SettingsError(f"{of_listener.prefix}ssl: {error}") from None
    return settings


def _store(of_listener: _Given, store: str, instead: str) -> str | None:
    """The path of a PEM store; None if there is no store, or if its text is in the setting `instead`. SettingsError."""
    location, kind = of_listener.get(f"ssl.{store}.location"), of_listener.get(f"ssl.{store}.type", "JKS")
    if location is None and of_listener.get(instead) is None:
        return None
    if kind != PEM:
        raise SettingsError(f"{of_listener.shown(f'ssl.{store}.type')}={kind}: {_CONVERT.format(store=store)}")
    if of_listener.get(f"ssl.{store}.password") is not None:
        raise SettingsError(f"{of_listener.shown(f'ssl.{store}.password')}: PEM has none, but for ssl.key.password")
    if location is not None and of_listener.get(instead) is not None:
        raise SettingsError(f"give either ssl.{store}.location or {instead}")
    return location


def _verifies_name(of_listener: _Given) -> bool:
    name = "ssl.endpoint.identification.algorithm"
    text = of_listener.text(name)
    if text not in (None, "", "https"):
        raise SettingsError(f"{of_listener.shown(name)}={text}: give https, or nothing")
    return text != ""


def client_security_of(properties: Mapping[str, str]) -> ListenerSecurity:
    """TLS and SASL of a client, by Kafka's client settings; SettingsError, one line without passwords."""
    given = {name: value.strip() for name, value in properties.items()}
    for name, value in given.items():
        if any("\ud800" <= letter <= "\udfff" for letter in value):
            raise SettingsError(f"{name}: it has half of a UTF-16 surrogate pair, which is no character")
    protocol = (given.get("security.protocol") or PLAINTEXT).upper()
    if protocol not in PROTOCOLS:
        raise SettingsError(f"security.protocol={protocol}: give one of {', '.join(PROTOCOLS)}")
    for name in given:
        if name.startswith(("ssl.", "sasl.")) and name not in {*_READ, MECHANISM, JAAS}:
            raise SettingsError(f"{name}: kcore has PLAIN and SCRAM, and TLS by OpenSSL, without this setting")
    of_client, has_sasl = _Given(given, None), protocol.startswith("SASL_")
    tls = _tls(of_client, has_sasl=has_sasl, is_server=False) if protocol.endswith("SSL") else None
    if not has_sasl:
        return ListenerSecurity(tls)
    mechanism = _own_mechanism(of_client, MECHANISM)
    if not given.get(JAAS):
        raise SettingsError(f"{JAAS} is missing")
    try:
        login = login_of(given[JAAS], mechanism)
    except JaasError as error:
        raise SettingsError(f"{JAAS}: {error}") from None
    if login.own is None:
        raise SettingsError(f"{JAAS}: username and password are missing")
    if login.options.get("tokenauth", "").lower() == "true":
        raise SettingsError(f"{JAAS}: kcore's clients use no delegation token")
    return ListenerSecurity(tls, logins={mechanism: login}, own_mechanism=mechanism)
