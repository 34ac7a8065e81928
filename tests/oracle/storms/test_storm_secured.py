"""Hollow brokers over TLS and SASL at Kafka's own controllers, and the line for each of Kafka's refusals."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from kcore.errors import TargetError
from kcore.measure.hollow.fleet import Fleet, Options
from kcore.measure.hollow.quorum_client import Quorum
from kcore.measure.processes.target import KAFKA, Target
from kcore.measure.storm.run_security import RunSecurity
from kcore.measure.storm.targets import started
from kcore.net.security.client_security import Sasl
from kcore.net.security.listener_security import ListenerSecurity
from kcore.server.properties.security import client_security_of
from net.authority import Authority
from net.loops import story

BROKERS = 20


@pytest.fixture(scope="module", params=["SSL", "SASL_SSL", "SASL_PLAINTEXT"])
def controllers(request: pytest.FixtureRequest) -> Iterator[tuple[list[str], RunSecurity]]:
    made = RunSecurity.made(request.param)
    with started(Target.parse(KAFKA).secured(request.param), 1, "1g", (), made) as processes:
        assert processes is not None
        yield processes.bootstrap, made


@story
async def test_brokers_register_and_are_unfenced(controllers: tuple[list[str], RunSecurity]) -> None:
    bootstrap, made = controllers
    quorum = Quorum(bootstrap, random=Random(1), security=made.client)
    await quorum.check_listens()
    await quorum.open()
    try:
        async with Fleet(quorum, random=Random(1), options=Options()) as fleet:
            brokers = [fleet.add(at + 1) for at in range(BROKERS)]
            await fleet.start(brokers)
            await fleet.unfenced(brokers, 120)
            assert fleet.errors == {} and fleet.counters()["connections"] == 2 * BROKERS
    finally:
        await quorum.close()


async def refusal(bootstrap: list[str], client: ListenerSecurity) -> str:
    with pytest.raises(TargetError) as raised:
        await Quorum(bootstrap, random=Random(1), security=client).check_listens()
    return str(raised.value)


@story
async def test_each_refusal_is_a_line_that_says_what_to_change(
    controllers: tuple[list[str], RunSecurity], tmp_path_factory: pytest.TempPathFactory
) -> None:
    bootstrap, made = controllers
    protocol, client = made.protocol, made.client
    line = await refusal(bootstrap, ListenerSecurity())
    wanted = "SSL or SASL_SSL" if protocol.endswith("SSL") else protocol
    assert f"the hollow brokers have PLAINTEXT: set security.protocol={wanted} in" in line
    if client.tls is not None:
        stranger: Path = Authority(tmp_path_factory.mktemp("stranger")).trusted
        unknown = replace(client, tls=replace(client.tls, certificates=stranger.read_text()))
        assert "is not trusted: add the certificate of its authority" in await refusal(bootstrap, unknown)
    else:
        tls = client_security_of({"security.protocol": "SSL"})
        assert "the hollow brokers have SSL: set security.protocol=SASL_PLAINTEXT in" in await refusal(bootstrap, tls)
    if client.own_sasl is not None:
        wrong = Users(client, "wrong")
        assert "check the username and the password in sasl.jaas.config" in await refusal(bootstrap, wrong.settings)
        plain = replace(client, own_mechanism="SCRAM-SHA-256", logins={"SCRAM-SHA-256": wrong.login})
        assert "set sasl.mechanism to one of them" in await refusal(bootstrap, plain)
    elif client.tls is not None:
        bare = replace(client, tls=replace(client.tls, certificate_chain=None, key=None))
        assert "give ssl.keystore.location a valid certificate" in await refusal(bootstrap, bare)


class Users:
    """A client's settings with another password."""

    def __init__(self, client: ListenerSecurity, password: str) -> None:
        sasl = client.own_sasl
        assert isinstance(sasl, Sasl)
        login = client.logins[sasl.mechanism]
        self.login = replace(login, options=login.options | {"password": password})
        self.settings = replace(client, logins={sasl.mechanism: self.login})
