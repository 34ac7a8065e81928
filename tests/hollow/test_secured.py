"""Hollow brokers over TLS and SASL, and the line that says why a controller refuses them."""

import asyncio
from pathlib import Path
from random import Random

import pytest

from hollow.secured_controllers import MECHANISMS, Behind, opened, quorum_at, self_signed, showing, trusting, user
from hollow.test_fleet import OPTIONS, started
from hollow.watched import FETCH_VERSION, MINUTE, Watched, answered, batch, fetched, says, watching
from kcore._ext import hollow as kernel
from kcore.errors import TargetError
from kcore.measure.hollow import quorum_client
from kcore.measure.hollow.fleet import Fleet, State
from kcore.measure.hollow.secured import loop_of
from kcore.net.security.tls import TlsSettings
from kcore.server.properties.security import client_security_of
from net.authority import Authority, server_tls
from net.loops import raw_server, story, until


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "authority")


def listener(authority: Authority, **more: object) -> TlsSettings:
    return TlsSettings(str(authority.keystore("server")), truststore=str(authority.trusted), **more)  # type: ignore[arg-type]


async def runs(behind: Behind, client: dict[str, str], count: int = 3) -> None:
    """Brokers with these settings register, are unfenced, fetch, and no connection ends."""
    async with (
        behind.controllers() as nodes,
        opened(nodes, client) as quorum,
        Fleet(quorum, random=Random(1), options=OPTIONS) as fleet,
    ):
        await started(fleet, count)
        assert {broker.state for broker in fleet.brokers.values()} == {State.RUNNING}
        await until(lambda: nodes[0].request_counts["FetchRequest"] >= count)
        assert fleet.errors == {}
        assert fleet.counters()["connections"] == 2 * count


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("protocol", ["SASL_PLAINTEXT", "SASL_SSL"])
@story
async def test_users_authenticate_with_each_mechanism(protocol: str, mechanism: str, authority: Authority) -> None:
    tls = listener(authority) if protocol == "SASL_SSL" else None
    client = trusting(authority, protocol) if tls else {"security.protocol": protocol}
    await runs(Behind(tls, (mechanism,)), client | user(mechanism))


@pytest.mark.parametrize("way", ["file", "encrypted key", "TLSv1.2", "text", "without the name"])
@story
async def test_client_certificates_in_each_form(way: str, authority: Authority) -> None:
    password = "letmein" if way == "encrypted key" else None
    own = authority.keystore("broker", password=password.encode() if password else None)
    client = trusting(authority) | showing(own, password)
    if way == "TLSv1.2":
        client["ssl.enabled.protocols"] = way
    if way == "text":
        key, chain = own.read_text().split("-----BEGIN CERTIFICATE", 1)
        del client["ssl.keystore.location"]
        client |= {"ssl.keystore.key": " ".join(key.split("\n"))}
        client |= {"ssl.keystore.certificate.chain": "-----BEGIN CERTIFICATE" + " ".join(chain.split("\n"))}
    tls = listener(authority, client_auth="required")
    if way == "without the name":
        client["ssl.endpoint.identification.algorithm"] = ""
        other = str(authority.keystore("another", "elsewhere.example.org"))
        tls = TlsSettings(other, truststore=str(authority.trusted), client_auth="required")
    await runs(Behind(tls), client)


@pytest.mark.parametrize("is_authority", [True, False])
@story
async def test_a_server_whose_own_certificate_is_trusted(is_authority: bool, authority: Authority) -> None:
    own = self_signed(authority.folder / "self.pem", is_authority=is_authority)
    store = {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(own)}
    await runs(Behind(TlsSettings(str(own))), {"security.protocol": "SSL", **store})


@story
async def test_connections_authenticate_again_before_their_sessions_end(authority: Authority) -> None:
    mechanism = "SCRAM-SHA-256"
    behind = Behind(listener(authority), (mechanism,), {mechanism: 2_000})
    async with (
        behind.controllers() as nodes,
        opened(nodes, trusting(authority, "SASL_SSL") | user(mechanism)) as quorum,
        Fleet(quorum, random=Random(1), options=OPTIONS) as fleet,
    ):
        await started(fleet, 1)
        await until(lambda: nodes[0].request_counts["FetchRequest"])  # Both connections have authenticated.
        begun = behind.users.request_count
        await until(lambda: behind.users.request_count > begun)
        before = fleet.counters()["heartbeats"]
        await until(lambda: fleet.counters()["heartbeats"] > before + 3)
        assert fleet.counters()["closed"] == 0


@pytest.fixture(autouse=True)
def no_controller_is_starting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quorum_client, "_STARTING_S", 0.0)


async def refusal(behind: Behind, client: dict[str, str]) -> str:
    """The line with which a storm ends before it begins."""
    async with behind.controllers() as nodes:
        with pytest.raises(TargetError) as raised:
            await quorum_at(nodes, client).check_listens()
    line = str(raised.value)
    assert "\n" not in line and "swordfish" not in line
    return line


@story
async def test_a_wrong_password(authority: Authority) -> None:
    client = trusting(authority, "SASL_SSL")
    for mechanism in MECHANISMS:
        line = await refusal(Behind(listener(authority), MECHANISMS), client | user(mechanism, "wrong"))
        assert f"SASL {mechanism} to localhost:" in line and "SASL_AUTHENTICATION_FAILED" in line
        assert line.endswith("check the username and the password in sasl.jaas.config")


@story
async def test_a_mechanism_that_the_listener_lacks(authority: Authority) -> None:
    client = trusting(authority, "SASL_SSL") | user("PLAIN")
    line = await refusal(Behind(listener(authority), ("SCRAM-SHA-512",)), client)
    assert "UNSUPPORTED_SASL_MECHANISM; its mechanisms: SCRAM-SHA-512: set sasl.mechanism to one of them" in line


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("another authority", "is not trusted: add the certificate of its authority to ssl.truststore.location"),
        ("expired", "the controller's certificate has expired: it needs a new one"),
        ("not yet valid", "the controller's certificate is not valid yet: compare the clocks"),
        ("another host", "the controller's certificate is for another host: name a host of the certificate"),
    ],
)
@story
async def test_a_certificate_that_the_client_refuses(what: str, said: str, authority: Authority) -> None:
    client, path = trusting(authority), authority.keystore("server", "elsewhere.example.org")
    if what == "another authority":
        path = Authority(authority.folder / "other").keystore("server")
    if what in ("expired", "not yet valid"):
        days = (-9, -3) if what == "expired" else (3, 9)
        path = self_signed(authority.folder / "self.pem", is_authority=False, days=days)
        client["ssl.truststore.location"] = str(path)
    line = await refusal(Behind(TlsSettings(str(path))), client)
    assert line.startswith("TLS to localhost:") and said in line


@pytest.mark.parametrize("own", ["none", "of another authority"])
@story
async def test_a_certificate_that_the_controller_refuses(own: str, authority: Authority) -> None:
    client = trusting(authority)
    if own != "none":
        client |= showing(Authority(authority.folder / "other").keystore("broker"))
    line = await refusal(Behind(listener(authority, client_auth="required")), client)
    assert "give ssl.keystore.location a valid certificate of an authority that the controllers trust" in line


@pytest.mark.parametrize("theirs", ["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"])
@pytest.mark.parametrize("ours", ["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"])
@story
async def test_another_security_protocol_is_named(ours: str, theirs: str, authority: Authority) -> None:
    behind = Behind(
        listener(authority) if theirs.endswith("SSL") else None, ("PLAIN",) if theirs.startswith("SASL") else ()
    )
    client = trusting(authority, ours) if ours.endswith("SSL") else {"security.protocol": ours}
    client |= user("PLAIN") if ours.startswith("SASL") else {}
    if ours == theirs:
        async with behind.controllers() as nodes:
            await quorum_at(nodes, client).check_listens()
        return
    line = await refusal(behind, client)
    wanted = "SSL or SASL_SSL" if theirs.endswith("SSL") and not ours.endswith("SSL") else theirs
    assert f"the hollow brokers have {ours}: set security.protocol={wanted} in the file of --command-config" in line


@story
async def test_brokers_whose_password_becomes_wrong_end_the_storm_after_a_few_attempts(authority: Authority) -> None:
    behind = Behind(listener(authority), ("SCRAM-SHA-256",))
    client = trusting(authority, "SASL_SSL") | user("SCRAM-SHA-256")
    async with behind.controllers() as nodes, opened(nodes, client) as quorum:
        behind.users.password = "changed"
        with pytest.raises(TargetError, match="SASL_AUTHENTICATION_FAILED"):
            async with Fleet(quorum, random=Random(1), options=OPTIONS) as fleet:
                await fleet.start([fleet.add(1)])
                await asyncio.Event().wait()
        assert fleet.counters()["closed"] <= 2 * 3, "three attempts of each connection"


def ends(watched: Watched) -> list[str]:
    return [kind for _, _, kind, _ in watched.notices if kind in ("closed", "refused")]


@pytest.mark.parametrize("what", ["another host", "another authority", "expired", "SASL"])
@story
async def test_the_third_refusal_in_a_row_is_final(what: str, authority: Authority) -> None:
    path, name, said = authority.keystore("server"), "localhost", "TLS: invalid peer certificate: "
    trusted = Authority(authority.folder / "other") if what == "another authority" else authority
    client = trusting(trusted)
    if what == "another host":
        name, said = "elsewhere.example.org", f"{said}certificate not valid for name"
    if what == "expired":
        path = self_signed(authority.folder / "self.pem", is_authority=True, days=(-9, -3))
        client["ssl.truststore.location"], said = str(path), f"{said}certificate expired"
    async with Behind(TlsSettings(str(path))).controllers() as [node]:
        assert node.server is not None
        watched = Watched(loop=loop_of(client_security_of(client), frame_bytes=1 << 20, timeout_ns=MINUTE))
        async with watching(node.server.port, links=(), watched=watched):
            for attempt in range(3):
                watched.loop.connect(0, kernel.HEARTBEATS, f"127.0.0.1:{node.server.port}", name)
                if what == "SASL":
                    await until(lambda before=attempt: len(watched.details("connected")) > before)
                    watched.loop.refuse(0, kernel.HEARTBEATS, "TLS: invalid peer certificate: or SASL")
                await until(lambda before=attempt: len(ends(watched)) > before)
            assert ends(watched) == ["closed", "closed", "refused"]
            assert all(each.decode().startswith(said) for each in watched.details("closed"))
            assert watched.details("refused")[0].decode().startswith(said)


@story
async def test_bytes_over_tls_are_all_decrypted(authority: Authority) -> None:
    """The loop drops none of them unread, as it does on plain connections."""
    big = batch(0, 20_000)
    talk = says(answered(1, fetched(big, 20_000), FETCH_VERSION))
    watched = Watched(loop=loop_of(client_security_of(trusting(authority)), frame_bytes=1 << 20, timeout_ns=MINUTE))
    async with (
        raw_server(talk, server_tls(authority.keystore("server"))) as port,
        watching(port, links=(), watched=watched),
    ):
        for row in (0, watched.add()):
            watched.loop.connect(row, kernel.FETCHES, f"127.0.0.1:{port}", "localhost")
            watched.loop.fetch(row, True)
            await until(lambda row=row: watched.loop.position(row)[0] == 20_000)
        await until(lambda: watched.bytes == big)
        assert dict(watched.loop.counters())["dropped_bytes"] == 0


@story
async def test_the_loop_refuses_settings_that_it_cannot_use(authority: Authority) -> None:
    empty = authority.folder / "key.pem"
    own = authority.keystore("broker", password=b"letmein")
    client = trusting(authority) | showing(own, "letmein")
    async with Behind(listener(authority)).controllers() as nodes, opened(nodes, client) as quorum:
        own.rename(empty)
        with pytest.raises(TargetError, match="TLS of the hollow brokers: /"):
            Fleet(quorum, random=Random(1))
