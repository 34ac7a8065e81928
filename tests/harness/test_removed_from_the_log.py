"""A node drops all that the metadata log removed while it did not read: catch-up, snapshots, resignations."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

from controller.kraft.active import Active, counted_from_zero, read_snapshot
from controller.kraft.runtime import BEGIN_MS, controller_of, decides
from harness.away import GONE, KEPT, Kind, check_removed_while_away
from kcore.broker.metadata_delta.loader import ImageChanged, MetadataLoader, ReadSnapshotSlice
from kcore.controller.kraft.controller import KraftController
from kcore.controller.kraft.decision import Versioned
from kcore.controller.kraft.handlers import HANDLERS
from kcore.controller.kraft.kraft_context import ControllerContext, RequestInfo
from kcore.metadata.acl_codes import ALLOW, LITERAL, PREFIXED, READ, TOPIC
from kcore.metadata.image.image import ClusterImage
from kcore.metadata.principal import KafkaPrincipal
from kcore.node.kraft.image_indexes import ImageAuthorizer
from kcore.node.kraft.snapshot_slices import snapshot_slices
from kcore.node.rate_quotas import REQUEST_PERCENTAGE
from kcore.node.tokens import secret_of
from kcore.raft.log.raft_log import SnapshotPiece
from kcore.raft.state_machine import SnapshotReader
from kcore.replication.raft_log import OffsetAndEpoch
from kcore.schema.broker_lifecycle import UnregisterBrokerRequest, UnregisterBrokerResponse
from kcore.schema.metadata_records_security import (
    AccessControlEntryRecord,
    DelegationTokenRecord,
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)
from kcore.schema.metadata_records_settings import ClientQuotaRecord, ConfigRecord, EntityData
from kcore.schema.metadata_records_topics import RemoveTopicRecord, TopicRecord
from kcore.schema.structure import MetadataRecord
from kcore.server.security.log_credentials import LogCredentials
from kcore.server.security.request_throttle import KnownByImage, RequestThrottle
from kcore.types import Uuid

KEY = "a secret"
ALICE = KafkaPrincipal("alice")
SETTINGS: dict[str, Any] = {"has_authorizer": True, "delegation_token_secret_key": KEY}


def _id(name: str) -> Uuid:
    return Uuid(name.encode().ljust(16, b"."))


class Node:
    """A server's queries of the state of one node, through copies that outlive the state."""

    def __init__(self, image: Callable[[], ClusterImage], context: Callable[[], ControllerContext] | None) -> None:
        self.image, self.context = image, context
        config = controller_of(**SETTINGS).config.node
        self.authorizer = ImageAuthorizer(config, image)
        self.credentials = LogCredentials(image, KEY, lambda: True)
        self.throttle = RequestThrottle(KnownByImage(image), lambda: BEGIN_MS, lambda *_: False)

    def may_read(self, topic: str) -> bool:
        allowed = self.authorizer.allows(ALICE, "127.0.0.1", READ, TOPIC, topic)
        if self.context is not None:
            info = RequestInfo(0, BEGIN_MS, principal=ALICE)
            assert self.context().is_authorized(info, READ, TOPIC, topic) is allowed
        return allowed

    def has_token(self, name: str) -> bool:
        found = self.credentials.token(name) is not None
        if self.context is not None:
            known = self.context().tokens.token_of(self.image(), secret_of(KEY.encode(), name))
            assert (known is not None) is found
        return found

    def has_quota(self, name: str) -> bool:
        quotas = self.image().quotas
        assert self.throttle.is_on is any(REQUEST_PERCENTAGE in each for each in quotas.values())
        return (("user", name),) in quotas

    def has_min_isr(self, topic: str) -> bool:
        """The setting of the topic's elections; the default is 1."""
        if topic not in self.image().topics:
            return False
        if self.context is None:
            return self.image().configs.get((2, topic), {}).get("min.insync.replicas") == "2"
        context = self.context()
        settings = context.election_settings.of(context.image, context.level, elr=True)
        values = np.broadcast_to(settings.min_isr.values, len(context.image.topics))
        return int(values[context.image.topics.row(topic)]) == 2


class OfLog(NamedTuple):
    """The records of an entry and of its removal, and who sees it."""

    made: Callable[[str], list[MetadataRecord]]
    removed: Callable[[str], list[MetadataRecord]]
    has: Callable[[Node, str], bool]


def _acl(pattern_type: int) -> Callable[[str], list[MetadataRecord]]:
    def made(name: str) -> list[MetadataRecord]:
        resource = {"resource_type": TOPIC, "resource_name": name, "pattern_type": pattern_type}
        entry = {"principal": str(ALICE), "host": "*", "operation": READ, "permission_type": ALLOW}
        return [AccessControlEntryRecord(id=_id(name), **resource, **entry)]

    return made


def _no_acl(name: str) -> list[MetadataRecord]:
    return [RemoveAccessControlEntryRecord(id=_id(name))]


def _user(name: str) -> list[MetadataRecord]:
    keys = {"salt": b"s", "stored_key": b"k" * 32, "server_key": b"k" * 32}
    return [UserScramCredentialRecord(name=name, mechanism=1, iterations=4096, **keys)]


def _token(name: str) -> list[MetadataRecord]:
    times = {"issue_timestamp": 1, "max_timestamp": 1 << 60, "expiration_timestamp": 1 << 60}
    return [DelegationTokenRecord(owner=str(ALICE), requester=str(ALICE), renewers=[], token_id=name, **times)]


def _quota(name: str, *, remove: bool = False) -> list[MetadataRecord]:
    entity = [EntityData(entity_type="user", entity_name=name)]
    return [ClientQuotaRecord(entity=entity, key=REQUEST_PERCENTAGE, value=5.0, remove=remove)]


def _min_isr(topic: str, value: str | None) -> MetadataRecord:
    return ConfigRecord(resource_type=2, resource_name=topic, name="min.insync.replicas", value=value)


def _topic(name: str) -> list[MetadataRecord]:
    return [TopicRecord(name=name, topic_id=_id(name)), _min_isr(name, "2")]


KINDS = {
    "an ACL": OfLog(_acl(LITERAL), _no_acl, Node.may_read),
    "an ACL of a prefix": OfLog(_acl(PREFIXED), _no_acl, lambda node, name: node.may_read(f"{name}-1")),
    "a user": OfLog(
        _user,
        lambda name: [RemoveUserScramCredentialRecord(name=name, mechanism=1)],
        lambda node, name: node.credentials.scram("SCRAM-SHA-256", name) is not None,
    ),
    "a token": OfLog(_token, lambda name: [RemoveDelegationTokenRecord(token_id=name)], Node.has_token),
    "a quota": OfLog(_quota, lambda name: _quota(name, remove=True), Node.has_quota),
    "a topic": OfLog(
        lambda name: [TopicRecord(name=name, topic_id=_id(name))],
        lambda name: [RemoveTopicRecord(topic_id=_id(name))],
        lambda node, name: name in node.image().topics,
    ),
    "a topic's setting": OfLog(_topic, lambda name: [_min_isr(name, None)], Node.has_min_isr),
}
EVERY = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)


class Writer(Active):
    """The active controller, which writes whatever a test wants to its log."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(**SETTINGS)
        self.commit()
        self._monkeypatch, self._given = monkeypatch, 0

    def write(self, records: list[MetadataRecord]) -> None:
        handler = decides(UnregisterBrokerResponse(), *map(Versioned, records))
        self._monkeypatch.setitem(HANDLERS, UnregisterBrokerRequest, handler)
        self.ask(UnregisterBrokerRequest())

    def new(self) -> tuple[bytes, int]:
        """The records since the last call, committed, and the log's end."""
        self.commit()
        begin, self._given = self._given, len(self.log)
        return self.log[begin:], self.controller.image.end_offset

    def snapshot(self) -> tuple[bytes, int]:
        end = self.controller.image.end_offset
        slices = snapshot_slices(self.controller.image, end, 1, 0, lambda: None)
        return counted_from_zero(b"".join(slices)), end


@pytest.fixture
def writer(monkeypatch: pytest.MonkeyPatch) -> Writer:
    return Writer(monkeypatch)


def _of(writer: Writer, node: Node, kind: OfLog) -> Kind:
    return Kind(
        lambda name: writer.write(kind.made(name)),
        lambda name: writer.write(kind.removed(name)),
        lambda name: kind.has(node, name),
    )


def _node_of(controller: KraftController) -> Node:
    return Node(lambda: controller.image, lambda: controller.context)


@EVERY
def test_what_is_removed_while_a_standby_catches_up_is_gone(writer: Writer, kind: OfLog) -> None:
    standby = controller_of(**SETTINGS)

    def catch_up() -> None:
        standby.on_committed(*writer.new())
        while standby.is_at_work:
            standby.on_work()

    def away(remove: Callable[[], None]) -> None:
        remove()
        catch_up()

    check_removed_while_away(_of(writer, _node_of(standby), kind), catch_up, away)


@EVERY
def test_what_a_loaded_snapshot_lacks_is_gone(writer: Writer, kind: OfLog) -> None:
    standby = controller_of(**SETTINGS)

    def away(remove: Callable[[], None]) -> None:
        remove()
        read_snapshot(standby, *writer.snapshot())

    check_removed_while_away(
        _of(writer, _node_of(standby), kind), lambda: [*standby.on_committed(*writer.new())].clear(), away
    )


@EVERY
def test_what_the_next_leader_removed_is_gone_for_the_last_one(writer: Writer, kind: OfLog) -> None:
    """It resigns, replays what others have committed, and leads again."""
    controller = writer.controller

    def away(remove: Callable[[], None]) -> None:
        removal = Active(writer.log, epoch=2, **SETTINGS)
        removal.commit()
        end = removal.controller.image.end_offset
        size = len(removal.log)
        assert size >= len(writer.log)
        writer.resign()
        later, writer.controller = writer.controller, removal.controller
        log, writer.log = writer.log, removal.log
        remove()
        writer.commit()
        assert writer.controller.image.end_offset > end
        batches, end = writer.log[len(log) :], writer.controller.image.end_offset
        writer.controller = later
        writer.take(later.on_committed(batches, end))
        assert later.epoch is None and later.image.end_offset == end
        writer.take(later.on_leader(3, end))

    check_removed_while_away(_of(writer, _node_of(controller), kind), writer.commit, away)


@EVERY
def test_what_was_never_committed_is_gone_after_a_resignation(writer: Writer, kind: OfLog) -> None:
    node = _node_of(writer.controller)
    writer.write(kind.made(KEPT))
    writer.commit()
    writer.write(kind.made(GONE))
    assert kind.has(node, GONE) and kind.has(node, KEPT)
    writer.resign()
    assert not kind.has(node, GONE) and kind.has(node, KEPT)


@EVERY
def test_what_was_removed_and_not_committed_is_back_after_a_resignation(writer: Writer, kind: OfLog) -> None:
    node = _node_of(writer.controller)
    writer.write(kind.made(KEPT))
    writer.commit()
    writer.write(kind.removed(KEPT))
    assert not kind.has(node, KEPT)
    writer.resign()
    assert kind.has(node, KEPT)


@EVERY
@pytest.mark.parametrize("by_snapshot", [False, True], ids=["by records", "by a snapshot"])
def test_what_is_removed_while_a_broker_is_behind_is_gone(writer: Writer, kind: OfLog, by_snapshot: bool) -> None:
    loader = MetadataLoader()
    node = Node(lambda: loader.image, None)

    def catch_up() -> None:
        loader.on_committed(*writer.new())

    def away(remove: Callable[[], None]) -> None:
        remove()
        if not by_snapshot:
            catch_up()
            return
        data, end = writer.snapshot()
        reader = SnapshotReader(OffsetAndEpoch(end, 1), lambda at, size: SnapshotPiece(data[at : at + size], len(data)))
        outputs = loader.on_snapshot(reader)
        while outputs == [ReadSnapshotSlice()]:
            assert kind.has(node, GONE), "the old state counts until the new one is whole"
            outputs = loader.on_read_slice()
        assert outputs == [ImageChanged(end, is_new=True)]

    check_removed_while_away(_of(writer, node, kind), catch_up, away)


def test_a_request_quota_is_off_where_another_image_has_none_after_as_many_changes(writer: Writer) -> None:
    images = [ClusterImage(), ClusterImage()]
    entity = [EntityData(entity_type="user", entity_name="alice")]
    for image, key in zip(images, (REQUEST_PERCENTAGE, "producer_byte_rate"), strict=True):
        image.apply(ClientQuotaRecord(entity=entity, key=key, value=5.0), 0)
    shown = images[:1]
    throttle = RequestThrottle(KnownByImage(lambda: shown[0]), lambda: BEGIN_MS, lambda *_: False)
    assert throttle.is_on
    shown[0] = images[1]
    assert not throttle.is_on
