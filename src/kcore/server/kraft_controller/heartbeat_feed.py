"""Lets the answer loop answer brokers' heartbeats that change nothing, and passes their times to the controller.

The loop answers a heartbeat that only extends its broker's session, and records the time and the offset: a contact.
The controller takes over all contacts before its next event, so that it fences no broker whose heartbeats the loop
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
from kcore.server.quorum_node.fetch_templates import request_pattern
from kcore.server.quorum_node.observer_feed import ObserverFeed
from kcore.wire.frame_places import frame, with_places

FIELDS: Final = {"correlation_id": 4, "current_metadata_offset": 8}
_CONTACT: Final = Struct("=3q")  # The loop's key of the connection, the offset, the time of arrival in ns.

Incarnation = tuple[int, int]
"""Broker id and epoch."""


class HeartbeatFeed:
    """The feed of the answer loop for BrokerHeartbeat requests; implements `Feed`."""

    def __init__(
        self,
        answer_loop: AnswerLoop,
        followers: ObserverFeed,
        controller: KraftController,
        clock: Clock,
        may_beat: Callable[[Direct], bool],
    ) -> None:
        """`may_beat`: whether the sender of a request has the right to send heartbeats now."""
        self._answer_loop, self._followers, self._controller, self._clock = answer_loop, followers, controller, clock
        self._may_beat = may_beat
        self._incarnations: dict[int, Incarnation] = {}  # By the loop's key of the connection.
        self._keys: dict[int, set[int]] = {}  # The loop's keys by broker id.
        self._contacts: list[Contact] = []  # Contacts that the controller has not taken over.
        self._rules: object = None  # The image, features and ACLs on which rights and rules of heartbeats depended.

    def follow(self) -> None:
        """Recalls the connections of brokers that have changed; all connections if rights or rules have changed."""
        controller, heartbeats = self._controller, self._controller.context.heartbeats
        if heartbeats.changed:
            for broker_id in heartbeats.changed:
                for key in self._keys.get(broker_id, ()):
                    self._answer_loop.recall(key)
            heartbeats.changed.clear()
        image = controller.image
        acls = image.changed_keys("acls").count if controller.config.node.has_authorizer else 0
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
        found = request_pattern(direct, request, FIELDS)
        if found is None:
            return None
        pattern, (correlation_place, offset_place) = found
        assert correlation_place is not None and offset_place is not None
        places = correlation_place, offset_place
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


def _answer(direct: Direct, response: BrokerHeartbeatResponse) -> tuple[bytes, int]:
    """The response's frame, and the position of its correlation id."""

    def build(correlation_id: int) -> bytes:
        return frame(ResponseHeader(correlation_id=correlation_id), response, direct.context.version)

    answer, [place] = with_places(build, ["correlation_id"])
    assert place is not None
    return answer, place
