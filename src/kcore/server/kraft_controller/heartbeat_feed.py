"""Lets the answer loop answer brokers' heartbeats that change nothing, and passes these contacts to the controller.

The loop answers a heartbeat that would only extend its broker's session, and records its time and its offset. The
controller takes these contacts over before its next event, so that it fences no broker whose heartbeats the loop
answered. Once the broker's registration changes, the controller answers its heartbeats.
"""

from collections.abc import Callable
from struct import Struct
from typing import Final

from kcore.controller.kraft.brokers.heartbeat import changes_nothing
from kcore.controller.kraft.brokers.heartbeats import Contact
from kcore.controller.kraft.controller import KraftController
from kcore.net.adoption import AdoptedConnection, Direct
from kcore.schema.broker_lifecycle import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from kcore.schema.headers import ResponseHeader
from kcore.schema.structure import Message
from kcore.server.clock import Clock
from kcore.server.quorum_node.answer_loop import AnswerLoop, Progress, Take
from kcore.server.quorum_node.follower_feed import FollowerFeed
from kcore.wire.frame_places import frame, is_made_of, with_places

FIELDS: Final = {"correlation_id": 4, "current_metadata_offset": 8}
_CONTACT: Final = Struct("=3q")  # The loop's key, the offset, when it came.

Incarnation = tuple[int, int]
"""Broker id and epoch."""


class HeartbeatFeed:
    """A feed of BrokerHeartbeat requests (`compiled.Feed`)."""

    def __init__(
        self,
        answer_loop: AnswerLoop,
        followers: FollowerFeed,
        controller: KraftController,
        clock: Clock,
        may_beat: Callable[[Direct], bool],
    ) -> None:
        """`may_beat`: whether the sender of a request has the right to it now."""
        self._answer_loop, self._followers, self._controller, self._clock = answer_loop, followers, controller, clock
        self._may_beat = may_beat
        self._incarnations: dict[int, Incarnation] = {}  # By the loop's key.
        self._keys: dict[int, set[int]] = {}  # By broker id.
        self._contacts: list[Contact] = []  # Contacts that the controller has not taken over.
        self._rules: object = None  # The state that the rights and rules of heartbeats are made from.

    def follow(self) -> None:
        """Has the connections handed back of brokers that have changed; all, where rights or rules have."""
        controller, heartbeats = self._controller, self._controller.context.heartbeats
        if heartbeats.changed:
            for broker_id in heartbeats.changed:
                for key in self._keys.get(broker_id, ()):
                    self._answer_loop.recall(key)
            heartbeats.changed.clear()
        image = controller.image
        acls = image.changed_keys("acls").count if controller.config.has_authorizer else 0
        rules = image, image.feature_records, acls
        if rules != self._rules:
            self._rules = rules
            self._answer_loop.recall_all()

    def plan(self, direct: Direct, response: Message) -> Take | None:
        """See `Feed.plan`."""
        request = direct.request
        if not isinstance(request, BrokerHeartbeatRequest) or not isinstance(response, BrokerHeartbeatResponse):
            return None
        if response.error_code or not response.is_caught_up or response.is_fenced or response.should_shut_down:
            return None
        context = self._controller.context
        if not self._followers.leads or not changes_nothing(context, request) or not self._may_beat(direct):
            return None
        offset, incarnation = request.current_metadata_offset, (request.broker_id, request.broker_epoch)
        found = heartbeat_pattern(direct, request)
        if found is None:
            return None
        pattern, places = found
        answer, answer_place = _answer(direct, response)

        def take(key: int, descriptor: int) -> None:
            self._incarnations[key] = incarnation
            self._keys.setdefault(incarnation[0], set()).add(key)
            self._answer_loop.loop.adopt_heartbeats(key, descriptor, pattern, places, answer, answer_place, offset)

        return take

    def before_left(self) -> None:
        """See `Feed.before_left`."""
        self._collect()

    def left(self, key: int, connection: AdoptedConnection, received: bytes, progress: Progress) -> None:
        """See `Feed.left`."""
        incarnation = self._incarnations.pop(key, None)
        if incarnation is not None:
            keys = self._keys[incarnation[0]]
            keys.discard(key)
            if not keys:
                del self._keys[incarnation[0]]

    def contacts(self) -> list[Contact]:
        """The heartbeats that the loop answered since the last call, in order of arrival."""
        if self._incarnations:
            self._collect()
        contacts, self._contacts = self._contacts, []
        return sorted(contacts, key=lambda contact: contact.at_ms)

    def _collect(self) -> None:
        for key, offset, at_ns in _CONTACT.iter_unpack(self._answer_loop.loop.drain_contacts()):
            if (incarnation := self._incarnations.get(key)) is not None:
                self._contacts.append(Contact(*incarnation, offset, self._clock.ms_of(at_ns)))


def heartbeat_pattern(direct: Direct, request: BrokerHeartbeatRequest) -> tuple[bytes, tuple[int, int]] | None:
    """The frame of that request with its size, and the places of FIELDS; None for bytes that kcore would not write.

    The request is used up.
    """
    header, version = direct.context.header, direct.context.version
    values = [header.correlation_id, request.current_metadata_offset]

    def build(correlation_id: int, current_metadata_offset: int) -> bytes:
        header.correlation_id, request.current_metadata_offset = correlation_id, current_metadata_offset
        return frame(header, request, version)

    zeros, (correlation_place, offset_place) = with_places(build, [*FIELDS])
    build(*values)
    assert correlation_place is not None and offset_place is not None
    pattern = len(direct.frame).to_bytes(4, "big") + direct.frame
    places = correlation_place, offset_place
    if not is_made_of(pattern, zeros, zip(places, values, FIELDS.values(), strict=True)):
        return None
    return pattern, places


def _answer(direct: Direct, response: BrokerHeartbeatResponse) -> tuple[bytes, int]:
    """Its frame, and the place of the correlation id."""

    def build(correlation_id: int) -> bytes:
        return frame(ResponseHeader(correlation_id=correlation_id), response, direct.context.version)

    answer, [place] = with_places(build, ["correlation_id"])
    assert place is not None
    return answer, place
