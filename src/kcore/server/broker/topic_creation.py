"""Creates topics with the active controller: internal topics for FindCoordinator, other topics for Metadata.

Clients do not wait for the creation; they retry until the topic exists. Source: AutoTopicCreationManager of 3.9.1 and
4.3.1, KRaftTopicCreator of 4.3.1; KIP-590, "Partially Change FindCoordinator Request Routing".
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

from kcore.broker.replicas.broker_config import BrokerConfig
from kcore.constants import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC
from kcore.errors import DecodeError
from kcore.metadata.topic_names import reason_invalid
from kcore.net.limits.bounded_log import BoundedLog
from kcore.net.request_context import RequestContext
from kcore.protocol_errors import Errors
from kcore.schema.envelope import EnvelopeRequest, EnvelopeResponse
from kcore.schema.headers import RequestHeader, ResponseHeader
from kcore.schema.structure import Message
from kcore.schema.topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest, CreateTopicsResponse
from kcore.server.broker.background_tasks import BackgroundTasks
from kcore.server.broker.broker_connections import Choose, ControllerClient
from kcore.server.broker.forwarding import enveloped
from kcore.server.properties.values import read_all, value_of
from kcore.wire.codec import decode_from, encode

logger = logging.getLogger(__name__)
WITHIN_S: Final = 60.0  # The time-out of a creation, as in Kafka.
REQUEST_TIMEOUT_MS: Final = 30_000  # request.timeout.ms
MOST_IN_FLIGHT: Final = 1_000  # The limit of topics in creation; the rest are created when clients retry.


AUTO_CREATE: Final = "auto.create.topics.enable"
_OF_ORDINARY: Final = ("num.partitions", "default.replication.factor")
ORDINARY_NAMES: Final = (AUTO_CREATE, *_OF_ORDINARY)


class OrdinaryTopics(NamedTuple):
    """Settings of the topics that Metadata creates; -1: the controller's default."""

    is_on: bool = True  # auto.create.topics.enable
    num_partitions: int = -1
    default_replication_factor: int = -1


def ordinary_topics_of(given: Mapping[str, str]) -> OrdinaryTopics:
    """Reads the settings from server.properties; SettingsError for an invalid value."""
    return OrdinaryTopics(value_of(AUTO_CREATE, given.get(AUTO_CREATE, "true")), **read_all(given, _OF_ORDINARY))


class TopicCreation:
    """Sends CreateTopics to the controller. A topic that is in creation is not requested again."""

    def __init__(
        self,
        controller: ControllerClient,
        config: BrokerConfig,
        ordinary: OrdinaryTopics | None = None,
        knows_envelopes: Callable[[], bool] = lambda: True,
    ) -> None:
        """`ordinary`: settings of the topics that Metadata creates; None: Metadata creates no topics.

        `knows_envelopes`: whether the controller accepts envelopes. Without them it checks the broker's rights.
        """
        self._controller, self._config, self._knows_envelopes = controller, config, knows_envelopes
        self._ordinary = ordinary or OrdinaryTopics(is_on=False)
        self._in_flight: set[str] = set()
        self._tasks = BackgroundTasks()
        self._log = BoundedLog(logger)

    @property
    def creates_ordinary(self) -> bool:
        """Whether Metadata creates unknown topics."""
        return self._ordinary.is_on

    def create(self, names: Iterable[str], context: RequestContext | None = None) -> None:
        """Starts the creation of those topics that are not in creation yet. Invalid names are ignored.

        `context`: the request of the client whose rights the controller checks; None: it checks the broker's rights.
        """
        wanted = [name for name in dict.fromkeys(names) if name not in self._in_flight and not reason_invalid(name)]
        wanted = wanted[: MOST_IN_FLIGHT - len(self._in_flight)]
        if wanted:
            self._in_flight.update(wanted)
            self._tasks.begin(self._create(wanted, context), "creation of topics")

    async def close(self) -> None:
        """Cancels all requests, and closes the connection."""
        await self._tasks.close()
        self._controller.close()

    async def _create(self, names: list[str], context: RequestContext | None) -> None:
        request = CreateTopicsRequest(topics=[*map(self._topic, names)], timeout_ms=REQUEST_TIMEOUT_MS)
        version = 0

        def make(choose: Choose) -> tuple[Message, int]:
            nonlocal version
            version = choose(CreateTopicsRequest)
            if context is None or not self._knows_envelopes():
                return request, version
            return _in_envelope(request, version, context), choose(EnvelopeRequest)

        try:
            async with asyncio.timeout(WITHIN_S):
                answer = await self._controller.ask(make)
            self._log_refusals(names, _inner(answer, version) if isinstance(answer, EnvelopeResponse) else answer)
        except TimeoutError:
            self._log.warning("no controller has created %s within %s s", ", ".join(names), WITHIN_S)
        except DecodeError as error:
            self._log.warning("the controller's answer about %s cannot be decoded: %s", ", ".join(names), error)
        finally:
            self._in_flight.difference_update(names)

    def _log_refusals(self, names: list[str], answer: CreateTopicsResponse | Errors) -> None:
        """Logs the errors of topics that the controller did not create: clients retry for them without success."""
        if isinstance(answer, Errors):
            self._log.warning("the controller refused to create %s: %s", ", ".join(names), answer.name)
            return
        for each in answer.topics:
            error = Errors.of(each.error_code)
            if error not in (Errors.NONE, Errors.TOPIC_ALREADY_EXISTS):  # Another broker may have created the topic.
                self._log.warning("the controller did not create %s: %s: %s", each.name, error.name, each.error_message)

    def _topic(self, name: str) -> CreatableTopic:
        config = self._config
        if name == GROUP_METADATA_TOPIC:
            partitions, factor = config.offsets_topic_num_partitions, config.offsets_topic_replication_factor
            settings = {
                "cleanup.policy": "compact",
                "compression.type": "producer",
                "segment.bytes": str(config.offsets_topic_segment_bytes),
            }
        elif name == TRANSACTION_STATE_TOPIC:
            partitions = config.transaction_state_log_num_partitions
            factor = config.transaction_state_log_replication_factor
            settings = {
                "unclean.leader.election.enable": "false",
                "compression.type": "uncompressed",
                "cleanup.policy": "compact",
                "min.insync.replicas": str(config.transaction_state_log_min_isr),
                "segment.bytes": str(config.transaction_state_log_segment_bytes),
            }
        else:
            partitions, factor = self._ordinary.num_partitions, self._ordinary.default_replication_factor
            settings = {}
        configs = [CreatableTopicConfig(name=key, value=value) for key, value in settings.items()]
        return CreatableTopic(name=name, num_partitions=partitions, replication_factor=factor, configs=configs)


def _in_envelope(request: CreateTopicsRequest, version: int, context: RequestContext) -> EnvelopeRequest:
    """The envelope of the request, with the client's principal (KAFKA-12294), client id and correlation id."""
    header = RequestHeader(
        request_api_key=request.api_key,
        request_api_version=version,
        correlation_id=context.header.correlation_id,
        client_id=context.header.client_id,
    )
    frame = bytes(encode(header, request.header_version(version))) + bytes(encode(request, version))
    return enveloped(frame, context.session)


def _inner(answer: EnvelopeResponse, version: int) -> CreateTopicsResponse | Errors:
    """The response in the envelope, or the envelope's error. DecodeError."""
    if answer.error_code != Errors.NONE or answer.response_data is None:
        return Errors.of(answer.error_code)
    data = bytes(answer.response_data)
    _, at = decode_from(ResponseHeader, CreateTopicsResponse.header_version(version), data)
    response, _ = decode_from(CreateTopicsResponse, version, data, at)
    return response
