"""kcore's servers as processes, each with what it needs beside it, and what an attacker may know of them.

With `tls` their listeners ask for TLS; else for nothing. Each has a page of metrics, where its command has the option.

Where a server has an authorizer, clients at 127.0.0.1 have every right and those at other addresses have none.
"""

import asyncio
import json
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from kcore import schema as s
from kcore.errors import KcoreError
from kcore.measure.processes.kcore_quorum import KcoreQuorum
from kcore.measure.processes.local_process import free_ports, random_uuid
from kcore.measure.processes.zk_cluster import ZookeeperProcess
from kcore.metadata.acl_codes import ALL, ALLOW, CLUSTER, GROUP, LITERAL, TOPIC
from kcore.net.connect import connect
from kcore.net.connection import Connection
from kcore.net.security.client_security import Security
from kcore.protocol_errors import Errors
from kcore.schema.acls import AclCreation, CreateAclsRequest
from kcore.schema.cluster_metadata import MetadataRequest
from kcore.schema.topics import CreatableTopic, CreateTopicsRequest
from net.authority import Authority, client_tls

KCORE = (sys.executable, "-c", "from kcore.cli import main; main()")
TOPIC_NAME = "t"
PARTITIONS = 200
WITHIN_S = 60.0
KRAFT_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
ZK_AUTHORIZER = "kafka.security.authorizer.AclAuthorizer"
EVERYONE = "allow.everyone.if.no.acl.found=true"
BROKER = """process.roles=broker
node.id=1
controller.quorum.bootstrap.servers={bootstrap}
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,OUTER:{protocol}
listeners=OUTER://127.0.0.1:{port}
inter.broker.listener.name=OUTER
log.dirs={data}
broker.heartbeat.interval.ms=500
cordoned.log.dirs=
authorizer.class.name={authorizer}
allow.everyone.if.no.acl.found=true
{stores}"""
OF_ZOOKEEPER = """listener.security.protocol.map=OUTER:SSL
listeners=OUTER://127.0.0.1:{port}
inter.broker.listener.name=OUTER
authorizer.class.name={authorizer}
allow.everyone.if.no.acl.found=true
{stores}"""
STORES = """ssl.keystore.type=PEM
ssl.keystore.location={keystore}
ssl.truststore.type=PEM
ssl.truststore.location={trusted}
"""


@dataclass
class Target:
    """A server, as an attacker knows it; as JSON it goes to the attacker's process."""

    server: str
    port: int
    cluster_id: str
    topic_id: str = ""
    apis: dict[str, tuple[int, int]] = field(default_factory=dict)
    metrics_port: int = 0  # 0: it has no page of metrics.
    trusted: str = ""  # The certificates that its TLS is checked by, a file; nothing: it has no TLS.

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @staticmethod
    def of_json(text: str) -> "Target":
        return Target(**json.loads(text))


class Tls:
    """Whether listeners ask for TLS, with the certificates for it."""

    def __init__(self, folder: Path, *, is_on: bool) -> None:
        self.is_on, self.protocol, self.stores, self.trusted = is_on, "PLAINTEXT", "", ""
        if is_on:
            authority = Authority(folder / "authority")
            self.protocol, self.trusted = "SSL", str(authority.trusted)
            self.stores = STORES.format(keystore=authority.keystore("server"), trusted=self.trusted)

    def file(self, folder: Path, text: str) -> tuple[str, ...]:
        """The option with the settings of a listener; nothing without TLS."""
        if not self.is_on:
            return ()
        path = folder / f"security-{len(list(folder.iterdir()))}.properties"
        path.write_text(text)
        return "--security", str(path)


async def connected(port: int, trusted: str, client_id: str = "kcore") -> Connection:
    """A connection of somebody who knows the server's certificates."""
    security = Security(client_tls(trusted)) if trusted else None
    return await connect("127.0.0.1", port, client_id=client_id, security=security)


class Process:
    """One of kcore's commands until the end of the `with`."""

    def __init__(self, folder: Path, name: str, *command: str, ready: str) -> None:
        self.log = folder / f"{name}.log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen([*KCORE, *command], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        end = time.monotonic() + WITHIN_S
        while not re.search(ready, self.said()):
            if self.process.poll() is not None or time.monotonic() > end:
                self.close()
                raise AssertionError(f"{name} did not start:\n{self.said()[-3000:]}")
            time.sleep(0.05)

    def said(self) -> str:
        return self.log.read_text(errors="replace")

    def close(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(15)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


@dataclass
class Running:
    """A server that runs."""

    target: Target
    pid: int
    log: Path

    def faults(self) -> list[str]:
        """The log lines that an operator would take for a fault of ours."""
        lines = self.log.read_text(errors="replace").splitlines()
        return [each for each in lines if " ERROR " in each or " CRITICAL " in each or each.startswith("Traceback")]


async def _retried(attempt: Callable[[], Any]) -> Any:
    end = time.monotonic() + WITHIN_S
    while True:
        try:
            if (found := await attempt()) is not None:
                return found
        except KcoreError:
            if time.monotonic() > end:
                raise
        assert time.monotonic() < end, "the cluster did not become what it is to be"
        await asyncio.sleep(0.2)


async def _rights(port: int, trusted: str) -> Any:
    """From 127.0.0.1 everything, so that from elsewhere nothing."""
    resources = [(CLUSTER, "kafka-cluster"), (TOPIC, "*"), (GROUP, "*")]
    wanted = [
        AclCreation(
            resource_type=kind, resource_name=name, resource_pattern_type=LITERAL, principal="User:*",
            host="127.0.0.1", operation=ALL, permission_type=ALLOW,
        )
        for kind, name in resources
    ]  # fmt: skip
    async with await connected(port, trusted) as connection:
        answer = await connection.send(CreateAclsRequest(creations=wanted), 3)
        return answer if all(each.error_code == Errors.NONE for each in answer.results) else None


async def _topic(port: int, trusted: str) -> Any:
    """Made, and led by a broker that is there."""
    async with await connected(port, trusted) as connection:
        topic = CreatableTopic(name=TOPIC_NAME, num_partitions=PARTITIONS, replication_factor=1)
        answer = await connection.send(CreateTopicsRequest(topics=[topic], timeout_ms=20_000), 7)
        [made] = answer.topics
        return made.topic_id if made.error_code == Errors.NONE else None


async def _led(port: int, trusted: str) -> Any:
    async with await connected(port, trusted) as connection:
        answer = await connection.send(MetadataRequest(topics=None), 12)
        found = [each for topic in answer.topics for each in topic.partitions if each.leader_id >= 0]
        return True if len(found) == PARTITIONS else None


async def _apis(port: int, trusted: str) -> dict[str, tuple[int, int]]:
    async with await connected(port, trusted) as connection:
        assert connection.versions is not None
        rows = connection.versions.answer.api_keys
    known = {each.api_key: each for each in s.index.REQUESTS.values()}
    return {
        known[row.api_key].__name__.removesuffix("Request"): (row.min_version, row.max_version)
        for row in rows
        if row.api_key in known
    }


def _target(server: str, port: int, cluster_id: str, page: int, trusted: str, topic_id: object = "") -> Target:
    return Target(server, port, cluster_id, str(topic_id), asyncio.run(_apis(port, trusted)), page, trusted)


class _Quorum(KcoreQuorum):
    """A controller with a page of metrics."""

    page = 0

    def run_command(self, configuration: Path) -> list[str]:
        return [*super().run_command(configuration), *(("--metrics", str(self.page)) if self.page else ())]


@contextmanager
def _kraft_controller(folder: Path, tls: Tls) -> Iterator[Running]:
    lines = f"authorizer.class.name={KRAFT_AUTHORIZER}\n{EVERYONE}\n{tls.stores}"
    quorum = _Quorum(listeners={"CONTROLLER": tls.protocol}, properties=lines)
    [quorum.page] = free_ports(1)
    with quorum:
        [node] = quorum.nodes
        asyncio.run(_retried(lambda: _rights(node.port, tls.trusted)))
        target = _target("kraft-controller", node.port, quorum.cluster_id, quorum.page, tls.trusted)
        yield Running(target, node.pid, node.log)


@contextmanager
def _kraft_broker(folder: Path, tls: Tls) -> Iterator[Running]:
    with KcoreQuorum(properties=f"authorizer.class.name={KRAFT_AUTHORIZER}\n{EVERYONE}\n") as quorum, ExitStack() as st:
        [port, page], [node] = free_ports(2), quorum.nodes
        asyncio.run(_retried(lambda: _rights(node.port, "")))
        properties = folder / "server.properties"
        places = {
            "bootstrap": quorum.bootstrap[0],
            "port": port,
            "protocol": tls.protocol,
            "stores": tls.stores,
            "data": folder / "data",
            "authorizer": KRAFT_AUTHORIZER,
        }
        properties.write_text(BROKER.format(**places))
        subprocess.run(
            [*KCORE, "broker", "kraft", "format", "-c", str(properties), "-t", quorum.cluster_id],
            check=True, capture_output=True,
        )  # fmt: skip
        command = ("broker", "kraft", "run", "-c", str(properties), "--metrics", str(page))
        broker = Process(folder, "broker", *command, ready="RUNNING")
        st.callback(broker.close)
        topic_id = asyncio.run(_retried(lambda: _topic(port, tls.trusted)))
        asyncio.run(_retried(lambda: _led(port, tls.trusted)))
        target = _target("kraft-broker", port, quorum.cluster_id, page, tls.trusted, topic_id)
        yield Running(target, broker.process.pid, broker.log)


@contextmanager
def _quorum_node(folder: Path, tls: Tls) -> Iterator[Running]:
    [port, page], cluster_id = free_ports(2), random_uuid()
    where, data = f"127.0.0.1:{port}", str(folder / "data")
    subprocess.run(
        [*KCORE, "quorum", "format", "--id", "1", "--data", data, "--cluster-id", cluster_id, "--standalone", where],
        check=True, capture_output=True,
    )  # fmt: skip
    command = ("quorum", "serve", "--id", "1", "--data", data, "--bootstrap-controller", where, "--listen", where)
    security = tls.file(folder, f"listener.security.protocol.map=CONTROLLER:SSL\n{tls.stores}")
    node = Process(folder, "node", *command, "--metrics", str(page), *security, ready="listens at")
    try:
        yield Running(_target("quorum-node", port, cluster_id, page, tls.trusted), node.process.pid, node.log)
    finally:
        node.close()


@contextmanager
def _over_zookeeper(folder: Path, which: str, tls: Tls) -> Iterator[Running]:
    """Both servers of ZooKeeper mode, of which `which` is the target; a broker of that mode has no page of metrics."""
    with ZookeeperProcess(tick_ms=500) as zookeeper, ExitStack() as stack:
        [of_controller, of_broker, page] = free_ports(3)
        common = ("--zookeeper", zookeeper.address, "--session-timeout", "10000")

        def listening(port: int) -> tuple[str, ...]:
            text = OF_ZOOKEEPER.format(port=port, authorizer=ZK_AUTHORIZER, stores=tls.stores)
            plain = ("--listen", f"127.0.0.1:{port}", "--config", f"authorizer.class.name={ZK_AUTHORIZER}")
            return tls.file(folder, text) or (*plain, "--config", EVERYONE)

        begin = ("controller", "zk", "--broker-id", "1000", *common, "--metrics", str(page))
        here = ("--listen", f"127.0.0.1:{of_controller}") if tls.is_on else ()
        controller = Process(folder, "controller", *begin, *here, *listening(of_controller), ready="is active, epoch")
        stack.callback(controller.close)
        begin = ("broker", "zk", "--broker-id", "1", *common, "--log-dir", str(folder / "data"))
        broker = Process(folder, "broker", *begin, *listening(of_broker), ready="is registered")
        stack.callback(broker.close)
        asyncio.run(_retried(lambda: _rights(of_controller, tls.trusted)))
        topic_id = asyncio.run(_retried(lambda: _topic(of_controller, tls.trusted)))
        asyncio.run(_retried(lambda: _led(of_broker, tls.trusted)))
        is_controller = which == "zk-controller"
        process, port = (controller, of_controller) if is_controller else (broker, of_broker)
        target = _target(which, port, "", page if is_controller else 0, tls.trusted, topic_id)
        yield Running(target, process.process.pid, process.log)


_STARTS: dict[str, Callable[[Path, Tls], Any]] = {
    "kraft-controller": _kraft_controller,
    "kraft-broker": _kraft_broker,
    "quorum-node": _quorum_node,
    "zk-controller": lambda folder, tls: _over_zookeeper(folder, "zk-controller", tls),
    "zk-broker": lambda folder, tls: _over_zookeeper(folder, "zk-broker", tls),
}
SERVERS = tuple(_STARTS)
NEEDS_JAVA = ("zk-controller", "zk-broker")


def started(server: str, folder: Path, *, tls: bool = False) -> Any:
    """The server in a `with`, as a `Running`."""
    return _STARTS[server](folder, Tls(folder, is_on=tls))
