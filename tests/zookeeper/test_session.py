"""Requests that a session sends by itself, and requests that it holds back."""

import pytest

from kcore.errors import RequestTimeoutError
from kcore.zookeeper.client import ZookeeperClient
from kcore.zookeeper.operations import END
from kcore.zookeeper.session import MULTI, OnWatch, ReplyFrame, Request, Session, SetWatches, Watch
from net.loops import story


def reader(path: str, kind: str) -> None:
    """A watcher."""


def another(path: str, kind: str) -> None:
    """Another watcher."""


def watch(path: str, who: OnWatch = reader, *, children: bool = False, is_there: bool = True) -> Watch:
    return Watch(path, who, lambda *_: None, children=children, is_there=is_there)


def test_watches_are_set_in_three_lists() -> None:
    """SetWatches of ZooKeeper's zookeeper.jute: relativeZxid, dataWatches, existWatches, childWatches."""
    added: list[Watch] = []
    watches = [watch("/d"), watch("/c", children=True), watch("/later", is_there=False), watch("/dd")]
    request = SetWatches(0x102030405, watches, added.append)
    assert request.serialize() == (
        b"\0\0\0\1\2\3\4\5"
        b"\0\0\0\2" b"\0\0\0\2/d" b"\0\0\0\3/dd"
        b"\0\0\0\1" b"\0\0\0\6/later"
        b"\0\0\0\1" b"\0\0\0\2/c"
    )  # fmt: skip
    assert added == watches
    request.deserialize(b"", 0)
    assert added == watches * 2


def test_watches_of_a_path_are_one_a_reader() -> None:
    """Two watches of the same znode both fire."""
    assert len({watch("/a"), watch("/a", another), watch("/a", another)}) == 2
    assert len({watch("/a"), watch("/a", is_there=False), watch("/a", children=True), watch("/b")}) == 3


def test_nothing_of_a_session_goes_out_in_the_next() -> None:
    session = 1
    request = Request(MULTI, b"body", lambda: session == 1, lambda: 9)
    assert request.serialize() == b"body"
    assert request.deserialize(b"answer", 3) == ReplyFrame(b"answer", 3, 9)
    session = 2
    assert request.serialize() == END  # A transaction of nothing.


@pytest.mark.parametrize(
    ("hosts", "path", "full"),
    [("h:1", "/", "/"), ("h:1", "/a", "/a"), ("h:1,h:2/k/l", "/", "/k/l"), ("h:1/k", "/a", "/k/a")],
)
def test_paths_are_below_the_chroot(hosts: str, path: str, full: str) -> None:
    assert Session(hosts, 1.0, None, {}).full(path) == full


@story
async def test_nobody_there() -> None:
    with pytest.raises(RequestTimeoutError, match=r"no ZooKeeper session at 127\.0\.0\.1:9 within 0\.2 s"):
        async with ZookeeperClient("127.0.0.1:9", connect_timeout_s=0.2):
            raise AssertionError("a session with nobody")
