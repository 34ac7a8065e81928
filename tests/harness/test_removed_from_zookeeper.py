"""A node drops all that was removed from ZooKeeper during a lost session, for each kind of state that it keeps."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from harness.away import GONE, KEPT, Kind
from kcore.metadata.acl_codes import ALLOW, LITERAL, PREFIXED, READ, TOPIC
from kcore.metadata.principal import KafkaPrincipal, Token
from kcore.metadata.zookeeper import znode_tokens, znodes
from kcore.metadata.zookeeper.znode_acls import CHANGES, AclBinding, encode_acl_change, encode_acls, resource_path
from kcore.node.zk.acls import AclAuthorizer, AclAuthorizerSettings, ZkAcls
from kcore.server.zk_node.acl_reader import AclReader
from kcore.server.zk_node.client_quotas import ZkAddressQuotas, ZkClientQuotas
from kcore.server.zk_node.credentials import ZkCredentials
from kcore.server.zk_node.notification_watcher import NotificationWatcher, NotifiedData
from server.zookeepers import Client, Zookeeper

KEY = "a2tra2tra2tra2tra2tra2tra2tra2tra2tra2tra2s="
CREDENTIAL = f"salt=AAAA,stored_key={KEY},server_key={KEY},iterations=4096"
ALICE = KafkaPrincipal("alice")


class InterruptedClient(Client):
    """Others may act before each of its reads, and after it while its answer is on the way."""

    def __init__(self, zookeeper: Zookeeper) -> None:
        super().__init__(zookeeper, on_session=lambda event: None)
        self.reads = 0
        self.before: dict[int, Callable[[], None]] = {}  # By the number of the place.

    def _interrupt(self) -> None:
        self.reads += 1
        self.before.pop(self.reads, lambda: None)()

    async def read_nodes(self, *arguments: Any) -> Any:
        self._interrupt()
        found = await super().read_nodes(*arguments)
        self._interrupt()
        return found

    async def read_children(self, *arguments: Any) -> Any:
        self._interrupt()
        found = await super().read_children(*arguments)
        self._interrupt()
        return found


class World:
    """A tree, a watcher of it, and entries of one kind."""

    def __init__(self, kind: str) -> None:
        self.zookeeper = Zookeeper()
        self.tree = self.zookeeper.tree
        self.client = InterruptedClient(self.zookeeper)
        data, self.kind = KINDS[kind](self)
        self.watcher = NotificationWatcher(self.client, data)
        self.tell = NOTES[kind]

    def note(self, name: str) -> None:
        """The notification that the entry has changed."""
        parent, data = self.tell(name)
        self.tree.create(parent, parents=True)
        self.tree.create_sequential(f"{parent}/note_", data)
        self.zookeeper.tell()

    def has_changes(self) -> bool:
        return self.watcher._changed.is_set()

    async def look(self) -> None:
        """The watcher's next turns, until nothing is new."""
        while self.has_changes():
            self.watcher._changed.clear()
            await self.watcher._update()

    def lose_session(self) -> None:
        self.tree.watched.clear()
        self.tree.watched_children.clear()
        self.zookeeper.on_watch.clear()
        self.watcher.session_lost()


def _settings(world: World, path: Callable[[str], str], name: str, value: str, has: Callable[[str], bool]) -> Kind:
    def put(entry: str) -> None:
        world.tree.create(path(entry), znodes.encode_config({name: value}), parents=True)

    return Kind(put, lambda entry: _delete(world, path(entry)), has)


def _delete(world: World, path: str) -> None:
    while path.count("/") > 2 and not world.tree.children[path]:
        world.tree.delete(path)
        path = path.rpartition("/")[0]


def _users(world: World) -> tuple[NotifiedData, Kind]:
    data = ZkCredentials(world.client, "a secret")
    has = lambda name: data.scram("SCRAM-SHA-256", name) is not None  # noqa: E731
    return data, _settings(world, "/config/users/{}".format, "SCRAM-SHA-256", CREDENTIAL, has)


def _tokens(world: World) -> tuple[NotifiedData, Kind]:
    data = ZkCredentials(world.client, "a secret")

    def put(name: str) -> None:
        token = znode_tokens.encode_token(Token(name, ALICE, ALICE, (), 1, 1 << 60, 1 << 60))
        world.tree.create(znode_tokens.token_path(name), token, parents=True)

    def remove(name: str) -> None:
        world.tree.delete(znode_tokens.token_path(name))

    return data, Kind(put, remove, lambda name: data.token(name) is not None)


def _acls(pattern_type: int) -> Callable[[World], tuple[NotifiedData, Kind]]:
    def made(world: World) -> tuple[NotifiedData, Kind]:
        acls = ZkAcls()
        authorizer = AclAuthorizer(AclAuthorizerSettings(), acls)

        def put(name: str) -> None:
            binding = AclBinding(TOPIC, pattern_type, name, str(ALICE), "*", READ, ALLOW)
            path = resource_path((TOPIC, pattern_type, name))
            world.tree.create(path, encode_acls([binding]), parents=True)

        def remove(name: str) -> None:
            world.tree.delete(resource_path((TOPIC, pattern_type, name)))

        def has(name: str) -> bool:
            return authorizer.allows(ALICE, "127.0.0.1", READ, TOPIC, name + ("" if pattern_type == LITERAL else "-1"))

        return AclReader(world.client, acls), Kind(put, remove, has)

    return made


def _quotas(path: str, *entity: str) -> Callable[[World], tuple[NotifiedData, Kind]]:
    def made(world: World) -> tuple[NotifiedData, Kind]:
        data = ZkClientQuotas(world.client)

        def has(name: str) -> bool:
            return tuple((kind, name) for kind in entity) in data.quotas

        return data, _settings(world, path.format, "request_percentage", "5.0", has)

    return made


def _addresses(world: World) -> tuple[NotifiedData, Kind]:
    data = ZkAddressQuotas(world.client)
    has = lambda name: data.rate_of(name) is not None  # noqa: E731
    return data, _settings(world, "/config/ips/{}".format, "connection_creation_rate", "5", has)


KINDS: dict[str, Callable[[World], tuple[NotifiedData, Kind]]] = {
    "a user": _users,
    "a token": _tokens,
    "an ACL": _acls(LITERAL),
    "an ACL of a prefix": _acls(PREFIXED),
    "a user's quota": _quotas("/config/users/{0}", "user"),
    "a client's quota": _quotas("/config/clients/{0}", "client-id"),
    "the quota of a user's client": _quotas("/config/users/{0}/clients/{0}", "client-id", "user"),
    "an address's quota": _addresses,
}


def _config_note(path: str) -> Callable[[str], tuple[str, bytes]]:
    return lambda name: (znodes.CONFIG_CHANGES, znodes.encode_config_change(path.format(name)))


def _acl_note(pattern_type: int) -> Callable[[str], tuple[str, bytes]]:
    return lambda name: (CHANGES[pattern_type], encode_acl_change((TOPIC, pattern_type, name)))


NOTES: dict[str, Callable[[str], tuple[str, bytes]]] = {
    "a user": _config_note("users/{0}"),
    "a token": lambda name: (znode_tokens.CHANGES, name.encode()),
    "an ACL": _acl_note(LITERAL),
    "an ACL of a prefix": _acl_note(PREFIXED),
    "a user's quota": _config_note("users/{0}"),
    "a client's quota": _config_note("clients/{0}"),
    "the quota of a user's client": _config_note("users/{0}/clients/{0}"),
    "an address's quota": _config_note("ips/{0}"),
}
EVERY = pytest.mark.parametrize("kind", KINDS)


async def _opened(kind: str) -> World:
    """Both entries are there, and known."""
    world = World(kind)
    for name in (KEPT, GONE):
        world.kind.put(name)
    await world.watcher.open()
    assert world.kind.has(KEPT) and world.kind.has(GONE)
    return world


def _check_gone(world: World) -> None:
    assert not world.kind.has(GONE), "it was removed"
    assert world.kind.has(KEPT), "nothing else was"


@EVERY
def test_what_is_removed_while_the_session_is_lost_is_gone(kind: str) -> None:
    async def story() -> None:
        world = await _opened(kind)
        world.lose_session()
        world.kind.remove(GONE)
        await world.look()
        _check_gone(world)
        world.kind.put(GONE)
        world.note(GONE)
        await world.look()
        assert world.kind.has(GONE), "the new session's notifications are applied"

    asyncio.run(story())


@EVERY
def test_what_is_removed_and_named_by_a_notification_is_gone(kind: str) -> None:
    async def story() -> None:
        world = await _opened(kind)
        world.kind.remove(GONE)
        world.note(GONE)
        assert world.has_changes()
        await world.look()
        _check_gone(world)

    asyncio.run(story())


@EVERY
@pytest.mark.parametrize("is_lost", [False, True], ids=["at the start", "after a lost session"])
def test_a_removal_between_any_two_reads_is_seen(kind: str, is_lost: bool) -> None:
    """The notification comes between the look for notifications and the reading of what they may name."""

    async def story(read: int) -> bool:
        world = World(kind)
        for name in (KEPT, GONE):
            world.kind.put(name)
        if is_lost:
            await world.watcher.open()
            world.lose_session()

        def remove() -> None:
            world.kind.remove(GONE)
            world.note(GONE)

        world.client.reads, world.client.before = 0, {read: remove}
        await (world.look() if is_lost else world.watcher.open())
        if was_there := not world.client.before:
            await world.look()
            _check_gone(world)
        return was_there

    read = 1
    while asyncio.run(story(read)):
        read += 1
    assert read > 2, "it reads more than once"


@EVERY
def test_a_session_that_is_lost_while_all_is_read_begins_anew(kind: str) -> None:
    """No notification names what is removed during the second absence."""

    async def story(read: int) -> bool:
        world = await _opened(kind)
        world.lose_session()

        def lose_again() -> None:
            world.lose_session()
            world.kind.remove(GONE)

        world.client.reads, world.client.before = 0, {read: lose_again}
        await world.look()
        if was_there := not world.client.before:
            _check_gone(world)
        return was_there

    read = 1
    while asyncio.run(story(read)):
        read += 1
    assert read > 2, "it reads more than once"
