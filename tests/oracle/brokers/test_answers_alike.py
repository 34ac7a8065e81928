"""A real broker's answers under kcore's controller and under Kafka's, to the same calls of the same users.

The broker forwards most of them in envelopes; all nodes and clients speak SASL_SSL, the clients with SCRAM. The
comparison leaves out ids, keys, times and offsets, which also differ between two clusters of Kafka. It ignores that
Kafka's controllers show an object of theirs where kcore's name the principal.
"""

import asyncio
import re
from collections.abc import Mapping
from typing import Any, Final

import pytest

from kcore import schema as s
from kcore.errors import AuthenticationError, NetworkError, UnsupportedVersionError
from kcore.net.connect import connect
from kcore.net.connection import Connection
from kcore.net.limits.connection_limits import Limits
from kcore.net.security.client_security import Sasl, Security
from kcore.protocol_errors import Errors
from kcore.schema.cluster_metadata import MetadataRequestTopic
from kcore.schema.structure import Message, Struct
from kcore.types import ZERO_UUID, Uuid
from net.authority import Authority, client_tls
from oracle.alike_calls import CALLS, Call, creates, topic
from oracle.kraft_clusters import FIRST_CONTROLLER
from oracle.zk.test_listener_security import OF_JAVA, PASSWORD, cluster_of

USERS: Final = ("broker", "admin", "alice", "bob", "carol")
LIMITS: Final = Limits(connect_s=60, request_s=60)
WITHIN_S: Final = 120.0
SECRET: Final = "delegation.token.secret.key=a-key-of-the-cluster\n"
OF_ONE_CLUSTER: Final = {
    *("topic_id", "token_id", "hmac", "throttle_time_ms", "replica_directory_id", "leader_epoch", "high_watermark"),
    *("issue_timestamp_ms", "expiry_timestamp_ms", "max_timestamp_ms"),
    *("issue_timestamp", "expiry_timestamp", "max_timestamp", "port"),
    *("log_end_offset", "last_fetch_timestamp", "last_caught_up_timestamp"),
}


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


class Clients:
    """A connection a user to the broker."""

    def __init__(self, port: int, authority: Authority) -> None:
        self._port, self._tls = port, client_tls(authority.trusted)
        self._of: dict[str, Connection] = {}
        self._settled = 0

    async def of(self, user: str) -> Connection:
        """Waits for the broker to know the user."""
        async with asyncio.timeout(WITHIN_S):
            while user not in self._of:
                security = Security(self._tls, Sasl("SCRAM-SHA-512", user, PASSWORD))
                try:
                    self._of[user] = await connect("127.0.0.1", self._port, security=security, limits=LIMITS)
                except (AuthenticationError, NetworkError):
                    await asyncio.sleep(0.2)
        return self._of[user]

    async def settle(self) -> None:
        """The broker has applied what was written before: it knows of a topic that is created now."""
        self._settled += 1
        name = f"settled-{self._settled}"
        admin = await self.of("admin")
        await admin.send(creates(topic(name)))
        metadata = s.MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=False)
        async with asyncio.timeout(WITHIN_S):
            while (await admin.send(metadata)).topics[0].error_code != Errors.NONE:
                await asyncio.sleep(0.05)
        await asyncio.sleep(0.5)  # The other publishers of the image come after the metadata.

    async def close(self) -> None:
        for each in self._of.values():
            await each.close()


def alike(value: Any, user: str) -> Any:
    """Without what two clusters cannot have in common, and without an order in lists."""
    if isinstance(value, Struct):
        names = [name for name in type(value).__slots__ if not name.startswith("_")]
        return {name: alike(each, user) for name in names if not is_of_one_cluster(name, each := getattr(value, name))}
    if isinstance(value, list):
        return sorted((alike(each, user) for each in value), key=repr)
    if not isinstance(value, str):
        return value
    shown = re.sub(OF_JAVA, f"Principal User:{user}", value)
    return re.sub(r'(?<=the cluster id ")[\w-]{22}', "ID", shown)


def is_of_one_cluster(name: str, value: Any) -> bool:
    """An id of zeros and a time of -1 are the same everywhere."""
    return name in OF_ONE_CLUSTER and value not in (-1, ZERO_UUID, Uuid(bytes(16)))


async def answers(port: int, authority: Authority) -> Mapping[str, Any]:
    """By the names of the calls."""
    clients, answers_by_name = Clients(port, authority), dict[str, Message]()
    found: dict[str, Any] = {}
    try:
        await clients.settle()
        for call in CALLS:
            if call.settles:
                await clients.settle()
            found[call.name] = await answer(clients, call, answers_by_name)
    finally:
        await clients.close()
    return found


async def answer(clients: Clients, call: Call, earlier: dict[str, Message]) -> Any:
    request = call.request if isinstance(call.request, Message) else call.request(earlier)
    try:
        earlier[call.name] = await (await clients.of(call.user)).send(request, call.version)
    except UnsupportedVersionError:  # The broker says that it has no such version.
        return "UnsupportedVersionError"
    except NetworkError as error:
        clients._of.pop(call.user, None)
        return type(error).__name__
    return alike(earlier[call.name], call.user)


def test_names_of_calls_are_unique() -> None:
    assert len({each.name for each in CALLS}) == len(CALLS)


def test_a_broker_answers_alike_under_either_controller(authority: Authority) -> None:
    found = {}
    for whose, real in (("kcore", []), ("Kafka", [FIRST_CONTROLLER])):
        with cluster_of(authority, SECRET, USERS, controllers=1, brokers=1, real=real) as cluster:
            found[whose] = asyncio.run(answers(cluster.brokers[0].port, authority))
            said = cluster.controllers[0].log.read_text()
            assert whose == "Kafka" or ("Traceback" not in said and " ERROR " not in said)
    pairs = {each.name: (found["kcore"][each.name], found["Kafka"][each.name]) for each in CALLS}
    wrong = [f"{name}:\n  kcore {one}\n  Kafka {other}" for name, (one, other) in pairs.items() if one != other]
    assert not wrong, f"{len(wrong)} of {len(pairs)}\n" + "\n".join(wrong)
