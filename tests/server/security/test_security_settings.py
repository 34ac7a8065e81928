"""server.properties: authentication at a controller's listener, and for its connections to other controllers."""

from pathlib import Path

import pytest

from kcore.net.security.jaas import MODULES
from kcore.net.security.listener_security import ListenerSecurity
from kcore.net.security.sasl_mechanisms import NoCredentials
from kcore.server.kraft_controller.kraft_controller_settings import settings_of
from kcore.server.properties.security import client_security_of
from kcore.server.properties.values import SettingsError
from net.authority import Authority, pem_of

MINIMAL = {
    "process.roles": "controller",
    "node.id": "7",
    "controller.quorum.bootstrap.servers": "a:1,b:2",
    "controller.listener.names": "CONTROLLER",
    "listeners": "CONTROLLER://:9093",
}
MAP = "listener.security.protocol.map"
OWN = "listener.name.controller."
SECRET = "swordfish"
PLAIN = f'{MODULES["PLAIN"]} required username="me" password="{SECRET}" user_alice="{SECRET}" user_bob="b";'
SCRAM = f'{MODULES["SCRAM-SHA-512"]} required username="me" password="{SECRET}";'
SASL = {
    MAP: "CONTROLLER:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
    "sasl.mechanism.controller.protocol": "SCRAM-SHA-512",
    f"{OWN}plain.sasl.jaas.config": PLAIN,
    f"{OWN}scram-sha-512.sasl.jaas.config": SCRAM,
}


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def ssl(authority: Authority) -> dict[str, str]:
    return {
        MAP: "CONTROLLER:SSL",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(authority.keystore("server")),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority.trusted),
    }


def security_of(given: dict[str, str]) -> ListenerSecurity:
    return settings_of(MINIMAL | given).security


def refusal(given: dict[str, str]) -> str:
    with pytest.raises(SettingsError) as raised:
        settings_of(MINIMAL | given)
    message = str(raised.value)
    assert "\n" not in message and SECRET not in message
    return message


def test_without_a_map_a_controllers_listener_is_plaintext() -> None:
    for given in ({}, {"ssl.keystore.location": "/nowhere"}, {MAP: "CONTROLLER:PLAINTEXT"}):
        security = security_of(given)
        assert (security.protocol, security.server_tls(), security.outgoing()) == ("PLAINTEXT", None, None)
        assert security.server_sasl(NoCredentials(), lambda: 0) is None


def test_tls(ssl: dict[str, str]) -> None:
    security = security_of(ssl)
    assert security.protocol == "SSL" and security.tls is not None and security.server_tls() is not None
    assert (security.tls.client_auth, security.tls.verifies_name) == ("none", True)
    outgoing = security.outgoing()
    assert outgoing is not None and outgoing().tls is not None and outgoing().sasl is None
    more = ssl | {
        "ssl.client.auth": "required",
        "ssl.endpoint.identification.algorithm": "",
        "ssl.allow.dn.changes": "true",
    }
    tls = security_of(more | {"ssl.enabled.protocols": "TLSv1.3"}).tls
    assert tls is not None and (tls.client_auth, tls.verifies_name, tls.versions) == ("required", False, ("TLSv1.3",))
    named = {"controller.listener.names": "SSL", "listeners": "SSL://:9093"}
    assert security_of({key: value for key, value in ssl.items() if key != MAP} | named).protocol == "SSL"


def test_the_listeners_own_settings_come_first(ssl: dict[str, str], authority: Authority) -> None:
    own = str(authority.keystore("own"))
    tls = security_of(ssl | {f"{OWN}ssl.keystore.location": own, "ssl.client.auth": "required"}).tls
    assert tls is not None and (tls.keystore, tls.client_auth) == (own, "required")
    assert security_of(ssl | {"listener.name.other.ssl.keystore.location": "/nowhere"}).tls is not None
    tls = security_of(SASL | ssl | {MAP: "CONTROLLER:SASL_SSL", "ssl.client.auth": "required"}).tls
    assert tls is not None and tls.client_auth == "none", "with SASL, only the listener's own setting counts"
    tls = security_of(SASL | ssl | {MAP: "CONTROLLER:SASL_SSL", f"{OWN}ssl.client.auth": "required"}).tls
    assert tls is not None and tls.client_auth == "required"


def test_pem_as_text(authority: Authority) -> None:
    pem = pem_of(authority.ca.issue_cert("localhost")).decode()
    at = pem.index("-----BEGIN CERT")
    given = {
        MAP: "CONTROLLER:SSL",
        "ssl.keystore.type": "PEM",
        "ssl.truststore.type": "PEM",
        "ssl.keystore.key": pem[:at].replace("\n", " "),
        "ssl.keystore.certificate.chain": pem[at:].replace("\n", " "),
        "ssl.truststore.certificates": authority.trusted.read_text().replace("\n", " "),
    }
    assert security_of(given).server_tls() is not None


def test_sasl(ssl: dict[str, str]) -> None:
    security = security_of(
        SASL
        | {
            "connections.max.reauth.ms": "1000",
            f"{OWN}plain.connections.max.reauth.ms": "2000",
            "sasl.server.max.receive.size": "5000",
            "connection.failed.authentication.delay.ms": "50",
        }
    )
    assert (security.protocol, security.own_mechanism) == ("SASL_PLAINTEXT", "SCRAM-SHA-512")
    sasl = security.server_sasl(NoCredentials(), lambda: 0)
    assert sasl is not None and sasl.users.has("alice", SECRET) and sasl.users.has("bob", "b") and len(sasl.users) == 2
    assert sasl.max_reauth_ms == {"PLAIN": 2000, "SCRAM-SHA-512": 1000}
    assert (sasl.max_receive_bytes, sasl.failure_delay_s) == (5000, 0.05)
    plain = security_of(SASL).server_sasl(NoCredentials(), lambda: 0)
    assert plain is not None and (plain.max_receive_bytes, plain.failure_delay_s) == (524_288, 0.1), "as in Kafka"
    assert plain.max_reauth_ms == {"PLAIN": 0, "SCRAM-SHA-512": 0}
    outgoing = security.outgoing()
    assert outgoing is not None
    shown = outgoing().sasl
    assert shown is not None and (shown.mechanism, shown.username, shown.password) == ("SCRAM-SHA-512", "me", SECRET)
    assert security_of(SASL | ssl | {MAP: "CONTROLLER:SASL_SSL"}).protocol == "SASL_SSL"


def test_no_secret_is_shown(ssl: dict[str, str]) -> None:
    given = MINIMAL | SASL | ssl | {MAP: "CONTROLLER:SASL_SSL", "delegation.token.secret.key": SECRET}
    settings = settings_of(given)
    config = settings.controller_config("a cluster", "4.3.1", frozenset())
    sasl, outgoing = settings.security.server_sasl(NoCredentials(), lambda: 0), settings.security.outgoing()
    assert outgoing is not None
    assert SECRET not in f"{settings} {settings.security} {config} {sasl} {outgoing()}"


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({MAP: "CONTROLLER:SASL_TLS"}, "give CONTROLLER one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL"),
        ({MAP: "OTHER:PLAINTEXT"}, "give CONTROLLER one of"),
        ({"sasl.enabled.mechanisms": "GSSAPI"}, "sasl.enabled.mechanisms=GSSAPI: kcore has PLAIN, SCRAM-SHA-256"),
        ({"sasl.enabled.mechanisms": ""}, "sasl.enabled.mechanisms=GSSAPI: kcore has"),
        ({f"{OWN}sasl.enabled.mechanisms": "OAUTHBEARER"}, f"{OWN}sasl.enabled.mechanisms=OAUTHBEARER: kcore has"),
        ({"sasl.mechanism.controller.protocol": ""}, "sasl.mechanism.controller.protocol=GSSAPI: kcore has"),
        ({"sasl.mechanism.controller.protocol": "SCRAM-SHA-256"}, f"{OWN}scram-sha-256.sasl.jaas.config is missing"),
        ({f"{OWN}plain.sasl.jaas.config": ""}, f"{OWN}plain.sasl.jaas.config is missing"),
        ({f"{OWN}plain.sasl.jaas.config": f"x {SECRET}"}, f"{OWN}plain.sasl.jaas.config: the login module of PLAIN is"),
        (
            {f"{OWN}scram-sha-512.sasl.jaas.config": f"{MODULES['SCRAM-SHA-512']} required;"},
            f"{OWN}scram-sha-512.sasl.jaas.config: username and password are missing",
        ),
        ({"sasl.jaas.config": SCRAM}, f"sasl.jaas.config: give {OWN}MECHANISM.sasl.jaas.config"),
        ({f"{OWN}sasl.jaas.config": SCRAM}, f"{OWN}sasl.jaas.config: give {OWN}MECHANISM.sasl.jaas.config"),
        ({f"{OWN}plain.sasl.server.callback.handler.class": "a.B"}, "without this setting"),
        ({"sasl.kerberos.service.name": "kafka"}, "sasl.kerberos.service.name: kcore has PLAIN and SCRAM"),
        ({"ssl.cipher.suites": "TLS_AES_128_GCM_SHA256"}, "ssl.cipher.suites: kcore has PLAIN and SCRAM"),
        ({f"{OWN}ssl.engine.factory.class": "a.B"}, f"{OWN}ssl.engine.factory.class: kcore has"),
        ({"principal.builder.class": "a.B"}, "kcore runs no classes of Java"),
        ({"ssl.principal.mapping.rules": "RULE:^CN=(.*?)$/$1/"}, "kcore has only DEFAULT"),
        ({"connections.max.reauth.ms": "soon"}, "connections.max.reauth.ms=soon: give a number"),
        ({"sasl.server.max.receive.size": "0"}, "sasl.server.max.receive.size=0: give a number"),
    ],
)
def test_an_invalid_sasl_setting_is_one_line(changed: dict[str, str], expected: str) -> None:
    assert expected in refusal(SASL | changed)


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"ssl.keystore.type": "JKS"}, "ssl.keystore.type=JKS: kcore reads PEM alone: `keytool -importkeystore"),
        ({"ssl.keystore.type": ""}, "ssl.keystore.type=JKS: kcore reads PEM alone"),
        ({"ssl.truststore.type": "PKCS12"}, "ssl.truststore.type=PKCS12: kcore reads PEM alone"),
        ({"ssl.keystore.location": ""}, "ssl.keystore.location is missing"),
        ({"ssl.keystore.location": "/nowhere/at.all"}, "No such file"),
        ({"ssl.truststore.location": "/nowhere/at.all"}, "No such file"),
        ({"ssl.keystore.password": SECRET}, "ssl.keystore.password: PEM has none"),
        ({"ssl.truststore.password": SECRET}, "ssl.truststore.password: PEM has none"),
        ({"ssl.keystore.key": SECRET}, "give both ssl.keystore.certificate.chain and ssl.keystore.key"),
        ({"ssl.keystore.key": SECRET, "ssl.keystore.certificate.chain": "x"}, "give either ssl.keystore.location or"),
        ({"ssl.truststore.certificates": "x"}, "give either ssl.truststore.location or"),
        ({"ssl.client.auth": "sometimes"}, "ssl.client.auth=sometimes: give none, requested, required"),
        ({"ssl.enabled.protocols": "TLSv1.1"}, "ssl.enabled.protocols=TLSv1.1: kcore has TLSv1.2, TLSv1.3"),
        ({"ssl.endpoint.identification.algorithm": "ldap"}, "give https, or nothing"),
    ],
)
def test_an_invalid_tls_setting_is_one_line(changed: dict[str, str], expected: str, ssl: dict[str, str]) -> None:
    assert expected in refusal(ssl | changed)


def test_an_invalid_key_is_one_line(tmp_path: Path, ssl: dict[str, str]) -> None:
    path = tmp_path / "keystore.pem"
    path.write_text(f"-----BEGIN PRIVATE KEY-----\n{SECRET}\n-----END PRIVATE KEY-----\n")
    assert "certificate or key" in refusal(ssl | {"ssl.keystore.location": str(path)})


def test_a_key_that_does_not_fit_its_password_or_certificate_says_so(tmp_path: Path, ssl: dict[str, str]) -> None:
    authority = Authority(tmp_path / "authority")
    encrypted = authority.keystore("server", password=b"letmein")
    for password in ({}, {"ssl.key.password": SECRET}):
        said = refusal(ssl | {"ssl.keystore.location": str(encrypted)} | password)
        assert f"{encrypted}: " in said and "ssl.key.password is missing or wrong" in said
    other = Authority(tmp_path / "other").keystore("server").read_text()
    mixed = tmp_path / "mixed.pem"
    own = authority.keystore("client").read_text()
    mixed.write_text(own[: own.index("-----BEGIN CERTIFICATE")] + other[other.index("-----BEGIN CERTIFICATE") :])
    assert "the private key is not that of the first certificate" in refusal(
        ssl | {"ssl.keystore.location": str(mixed)}
    )
    mixed.write_text("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
    assert "no PEM of certificates" in refusal(
        ssl | {"ssl.truststore.location": str(mixed), "ssl.client.auth": "required"}
    )


@pytest.mark.parametrize(
    "changed",
    [{"ssl.key.password": SECRET * 1024}, {"ssl.keystore.location": "/a\0b"}, {"ssl.key.password": f"{SECRET}\ud800"}],
)
def test_a_password_or_path_that_openssl_cannot_take_is_one_line(
    changed: dict[str, str], tmp_path: Path, ssl: dict[str, str]
) -> None:
    encrypted = Authority(tmp_path / "authority").keystore("server", password=b"letmein")
    said = refusal(ssl | {"ssl.keystore.location": str(encrypted)} | changed)
    assert "a path has the character NUL, or ssl.key.password has more than 1,024 bytes" in said or "wrong" in said


def test_a_client_has_no_half_of_a_surrogate_pair() -> None:
    """A password with such a letter has no bytes to send."""
    with pytest.raises(SettingsError, match=r"^sasl\.jaas\.config: it has half of a UTF-16 surrogate pair"):
        client_security_of({"sasl.jaas.config": f"{SECRET}\ud800"})
