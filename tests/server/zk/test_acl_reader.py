"""A node reads all ACLs again in a new session, while it serves requests."""

from types import SimpleNamespace
from typing import Any

from kcore.metadata.acl_codes import ALLOW, LITERAL, READ, TOPIC
from kcore.metadata.zookeeper.znode_acls import AclBinding, encode_acls
from kcore.node.zk.acls import ZkAcls
from kcore.server.zk_node.acl_reader import AclReader
from net.loops import story


def binding(name: str) -> AclBinding:
    return AclBinding(TOPIC, LITERAL, name, "User:alice", "*", READ, ALLOW)


@story
async def test_entries_that_a_request_creates_during_a_new_read_stay() -> None:
    """The read began before the request: its list of resources lacks the new one, and has one that is gone."""
    acls = ZkAcls()
    for name in ("gone", "kept"):
        acls.update((TOPIC, LITERAL, name), [binding(name)])

    async def read_children(paths: list[str]) -> list[list[str] | None]:
        return [["kept"] if path == "/kafka-acl/Topic" else None for path in paths]

    async def read_nodes(paths: list[str]) -> list[Any]:
        acls.update((TOPIC, LITERAL, "new"), [binding("new")])
        return [SimpleNamespace(data=encode_acls([binding("kept")])) for _ in paths]

    zookeeper: Any = SimpleNamespace(read_children=read_children, read_nodes=read_nodes)
    await AclReader(zookeeper, acls).read_all()
    assert acls.resources == {(TOPIC, LITERAL, "kept"), (TOPIC, LITERAL, "new")}
