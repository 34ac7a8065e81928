"""A KRaft controller and two brokers in this process, whose listeners ask for TLS and SASL, over real sockets."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Final, Self

from kcore.controller.kraft.activation import Bootstrap
from kcore.measure.processes.local_process import free_ports
from kcore.metadata.acl_codes import ALLOW, CLUSTER, CLUSTER_NAME
from kcore.net.connect import connect
from kcore.net.connection import Connection
from kcore.net.security.client_security import Sasl, Security
from kcore.net.security.jaas import MODULES
from kcore.raft.log.memory_log import MemoryLog
from kcore.raft.raft_config import RaftConfig
from kcore.schema.acls import AclCreation, CreateAclsRequest
from kcore.schema.scram import AlterUserScramCredentialsRequest, ScramCredentialUpsertion
from kcore.scram import salted_password
from kcore.server.kraft_broker.kraft_broker_server import KraftBrokerServer
from kcore.server.kraft_broker.kraft_broker_settings import broker_settings_of
from kcore.server.kraft_controller.kraft_controller_server import KraftServer
from kcore.server.kraft_controller.kraft_controller_settings import settings_of
from kcore.server.quorum_node.elections import MemoryElections
from kcore.storage.properties import parse_properties
from kcore.storage.raft.raft_format import format_log_directories
from kcore.types import Uuid
from net.authority import Authority, client_tls
from net.loops import until

CLUSTER_ID: Final = "a-cluster-of-the-tests"
PASSWORD: Final = "swordfish"
OF_ALL: Final = """authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:controller;User:broker;User:admin
delegation.token.secret.key=a secret
controller.quorum.voters=7@127.0.0.1:{port}
controller.listener.names=CONTROLLER
ssl.keystore.type=PEM
ssl.keystore.location={keystore}
ssl.truststore.type=PEM
ssl.truststore.location={trusted}
sasl.mechanism.controller.protocol=PLAIN
"""
OF_CONTROLLER: Final = """process.roles=controller
node.id=7
listeners=CONTROLLER://127.0.0.1:{port}
listener.security.protocol.map=CONTROLLER:SASL_SSL
broker.session.timeout.ms=2000
sasl.enabled.mechanisms=PLAIN
listener.name.controller.plain.sasl.jaas.config={plain} required username="controller" password="{password}" \\
user_controller="{password}" user_broker="{password}" user_admin="{password}";
"""
OF_BROKER: Final = """process.roles=broker
node.id={node_id}
listeners=SECURE://127.0.0.1:0,CLIENTS://127.0.0.1:0,OPEN://127.0.0.1:0
advertised.listeners=SECURE://127.0.0.1:0,CLIENTS://localhost:0,OPEN://127.0.0.1:0
listener.security.protocol.map=CONTROLLER:SASL_SSL,SECURE:SASL_SSL,CLIENTS:SASL_PLAINTEXT,OPEN:PLAINTEXT
inter.broker.listener.name=SECURE
sasl.enabled.mechanisms=SCRAM-SHA-512
listener.name.clients.sasl.enabled.mechanisms=SCRAM-SHA-256,SCRAM-SHA-512
sasl.mechanism.inter.broker.protocol=SCRAM-SHA-512
listener.name.secure.connections.max.reauth.ms={reauth_ms}
listener.name.controller.plain.sasl.jaas.config={plain} required username="broker" password="{password}";
listener.name.secure.scram-sha-512.sasl.jaas.config={scram} required username="broker" password="{password}";
listener.name.clients.scram-sha-256.sasl.jaas.config={scram} required;
listener.name.clients.scram-sha-512.sasl.jaas.config={scram} required;
log.dirs={folder}/{node_id}
broker.heartbeat.interval.ms=100
cordoned.log.dirs=
replica.fetch.backoff.ms=50
replica.fetch.wait.max.ms=50
"""


class SecureCluster:
    """Controller 7 and brokers 1 and 2; `admin` may do everything, `alice` has a password and no rights."""

    def __init__(self, folder: Path, authority: Authority, reauth_ms: int = 0) -> None:
        self.folder, self.authority = folder, authority
        self.brokers: dict[int, KraftBrokerServer] = {}
        self._words = {
            "port": str(free_ports(1)[0]),
            "trusted": str(authority.trusted),
            "plain": MODULES["PLAIN"],
            "scram": MODULES["SCRAM-SHA-512"],
            "password": PASSWORD,
            "folder": str(folder),
            "reauth_ms": str(reauth_ms),
        }

    def properties(self, text: str, node_id: int) -> dict[str, str]:
        """The properties of one node."""
        words = self._words | {"node_id": str(node_id), "keystore": str(self.keystore(node_id))}
        return parse_properties((OF_ALL + text).format(**words).encode())

    def keystore(self, node_id: int) -> Path:
        """The file with the node's certificate."""
        path = self.authority.folder / f"node-{node_id}.pem"
        return path if path.exists() else self.authority.keystore(f"node-{node_id}")

    async def open(self, stack: AsyncExitStack) -> Self:
        """The brokers are unfenced."""
        settings = settings_of(self.properties(OF_CONTROLLER, 7))
        where = {settings.listener: settings.advertised}
        raft = RaftConfig(
            CLUSTER_ID,
            *(7, Uuid(b"c" * 16), where, lambda bound: 0),
            voters=settings.voters,
            listener=settings.listener,
        )
        self.controller = KraftServer(
            settings.controller_config(CLUSTER_ID, "4.3.1", frozenset()),
            *(raft, MemoryLog(), MemoryElections(), Bootstrap.of_features({"metadata.version": 30}, "a test")),
            host="127.0.0.1",
            port=settings.listen.port,
            answer_loop="plain",
            security=settings.security,
        )
        await stack.enter_async_context(self.controller)
        await until(lambda: self.controller.controller.epoch is not None)
        async with await self.at_controller("admin") as admin:
            for name in ("broker", "admin", "alice"):
                await make_user(admin, name)
        for node_id in (1, 2):
            own = broker_settings_of(self.properties(OF_BROKER, node_id))
            format_log_directories(own.log_dirs, node_id=node_id, cluster_id=CLUSTER_ID)
            self.brokers[node_id] = await stack.enter_async_context(KraftBrokerServer(own))
        for broker in self.brokers.values():
            await broker.until_running()
        return self

    async def at_controller(self, name: str) -> Connection:
        """A connection of one of the controller's own users."""
        return await connect("127.0.0.1", self.controller.port, security=self.security(Sasl("PLAIN", name, PASSWORD)))

    def security(self, sasl: Sasl | None = None) -> Security:
        return Security(client_tls(self.authority.trusted), sasl)

    async def connect(self, broker_id: int, name: str, listener: str = "SECURE", word: str = PASSWORD) -> Connection:
        """A connection of a user of the log to a broker's listener."""
        sasl = Sasl("SCRAM-SHA-512", name, word)
        security = self.security(sasl) if listener == "SECURE" else Security(sasl=sasl)
        return await connect("127.0.0.1", self.brokers[broker_id].listening.ports[listener], security=security)

    async def ask(self, name: str, request: Any, version: int | None = None, broker_id: int = 1) -> Any:
        async with await self.connect(broker_id, name) as connection:
            return await connection.send(request, version)

    async def allow(
        self, operation: int, resource_type: int = CLUSTER, name: str = CLUSTER_NAME, permission: int = ALLOW
    ) -> None:
        """Alice gets the right; both brokers know."""
        creation = AclCreation(
            resource_type=resource_type,
            resource_name=name,
            resource_pattern_type=3,
            principal="User:alice",
            host="*",
            operation=operation,
            permission_type=permission,
        )
        answer = await self.ask("admin", CreateAclsRequest(creations=[creation]))
        assert [each.error_code for each in answer.results] == [0]
        count = len(self.controller.controller.image.acls)
        await until(lambda: all(len(each.link.loader.image.acls) == count for each in self.brokers.values()))


async def make_user(admin: Connection, name: str) -> None:
    """One who comes with SCRAM."""
    for code, mechanism in ((1, "SCRAM-SHA-256"), (2, "SCRAM-SHA-512")):
        salted = salted_password(mechanism, PASSWORD.encode(), bytes(16), 4096)
        upsertion = ScramCredentialUpsertion(
            name=name, mechanism=code, iterations=4096, salt=bytes(16), salted_password=salted
        )
        answer = await admin.send(AlterUserScramCredentialsRequest(upsertions=[upsertion]))
        assert [each.error_code for each in answer.results] == [0]


@asynccontextmanager
async def secure_cluster(folder: Path, authority: Authority, **options: Any) -> AsyncIterator[SecureCluster]:
    async with AsyncExitStack() as stack:
        yield await SecureCluster(folder, authority, **options).open(stack)
