"""Kafka's settings that kcore's KRaft controllers and brokers honour; a log line names other given settings.

A test proves for each name that it is read, refused, or named by that line.
"""

import logging
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from kcore.node.kraft.config_kinds import group_defaults
from kcore.node.kraft.effective_configs import synonyms
from kcore.releases.known import NEWEST
from kcore.server.properties.definitions import KNOWN_NAMES
from kcore.server.properties.values import LISTENER_PREFIX

logger = logging.getLogger(__name__)
_OF_NODES: Final = """
    advertised.listeners authorizer.class.name connection.failed.authentication.delay.ms connections.max.idle.ms
    connections.max.reauth.ms controller.listener.names controller.quorum.append.linger.ms
    controller.quorum.auto.join.enable controller.quorum.bootstrap.servers controller.quorum.election.backoff.max.ms
    controller.quorum.election.timeout.ms controller.quorum.fetch.max.bytes controller.quorum.fetch.snapshot.max.bytes
    controller.quorum.fetch.timeout.ms controller.quorum.request.timeout.ms controller.quorum.retry.backoff.ms
    controller.quorum.voters default.replication.factor delegation.token.secret.key
    internal.metadata.log.segment.bytes listener.security.protocol.map listeners log.dir log.dirs
    max.connection.creation.rate max.connections max.connections.per.ip max.connections.per.ip.overrides
    metadata.log.dir metadata.log.max.record.bytes.between.snapshots metadata.log.max.snapshot.interval.ms
    metadata.log.segment.bytes metadata.log.segment.ms metadata.max.retention.bytes metadata.max.retention.ms
    min.insync.replicas node.id num.partitions process.roles queued.max.request.bytes quota.window.num
    quota.window.size.seconds sasl.enabled.mechanisms sasl.jaas.config sasl.mechanism.controller.protocol
    sasl.server.max.receive.size socket.request.max.bytes ssl.client.auth ssl.enabled.protocols
    ssl.endpoint.identification.algorithm ssl.key.password ssl.keystore.certificate.chain ssl.keystore.key
    ssl.keystore.location ssl.keystore.password ssl.keystore.type ssl.principal.mapping.rules
    ssl.truststore.certificates ssl.truststore.location ssl.truststore.password ssl.truststore.type
"""
_OF_CONTROLLERS: Final = """
    auto.leader.rebalance.enable broker.session.timeout.ms controller.quota.window.num
    controller.quota.window.size.seconds delegation.token.expiry.check.interval.ms delegation.token.expiry.time.ms
    delegation.token.max.lifetime.ms delete.topic.enable leader.imbalance.check.interval.seconds
    metadata.max.idle.interval.ms remote.log.storage.system.enable unclean.leader.election.interval.ms
    unstable.feature.versions.enable
"""
_OF_BROKERS: Final = """
    alter.log.dirs.replication.quota.window.num alter.log.dirs.replication.quota.window.size.seconds
    auto.create.topics.enable broker.heartbeat.interval.ms broker.rack cordoned.log.dirs fetch.max.bytes
    initial.broker.registration.timeout.ms inter.broker.listener.name log.dir.failure.timeout.ms
    log.index.interval.bytes log.retention.check.interval.ms log.segment.bytes
    max.incremental.fetch.session.cache.slots message.max.bytes offsets.topic.num.partitions
    offsets.topic.replication.factor offsets.topic.segment.bytes producer.id.expiration.check.interval.ms
    producer.id.expiration.ms replica.fetch.backoff.ms replica.fetch.max.bytes
    replica.fetch.min.bytes replica.fetch.response.max.bytes replica.fetch.wait.max.ms replica.lag.time.max.ms
    replication.quota.window.num replication.quota.window.size.seconds
    sasl.mechanism.inter.broker.protocol security.inter.broker.protocol transaction.state.log.min.isr
    transaction.state.log.num.partitions transaction.state.log.replication.factor
    transaction.state.log.segment.bytes
"""
READ_OF_TOPICS: Final = """
    cleanup.policy compression.gzip.level compression.lz4.level compression.type compression.zstd.level
    follower.replication.throttled.replicas leader.replication.throttled.replicas max.decompressed.message.bytes
    max.message.bytes message.timestamp.after.max.ms message.timestamp.before.max.ms message.timestamp.type
    min.insync.replicas retention.bytes retention.ms segment.bytes segment.ms
"""
"""Settings of topics that a broker acts on; a controller checks and describes all of them."""


def _defaults_of_topics(names: Iterable[str]) -> set[str]:
    """The settings of nodes that give the defaults of these settings of topics."""
    known = NEWEST.topic_configs
    return {server for name in names for server, _ in synonyms(known[name])} & KNOWN_NAMES


_OF_ALL: Final = frozenset(_OF_NODES.split())
BY_CONTROLLERS: Final = (
    _OF_ALL
    | frozenset(_OF_CONTROLLERS.split())
    | _defaults_of_topics(NEWEST.topic_configs)
    | (group_defaults(NEWEST.name) & KNOWN_NAMES)
)
BY_BROKERS: Final = _OF_ALL | frozenset(_OF_BROKERS.split()) | _defaults_of_topics(READ_OF_TOPICS.split())


def without_effect(given: Mapping[str, str], honoured: Collection[str], besides: Collection[str] = ()) -> list[str]:
    """The given names that kcore does not honour. `besides`: names that only kcore defines and reads."""
    return sorted(name for name in given if plain_name(name) not in honoured and name not in besides)


def warn_of_others(given: Mapping[str, str], honoured: Collection[str], besides: Collection[str] = ()) -> None:
    """Logs a line with the given names that kcore does not honour, if there are any."""
    if names := without_effect(given, honoured, besides):
        logger.warning("kcore ignores settings whose features it does not have: %s", ", ".join(names))


def plain_name(name: str) -> str:
    """The name without the prefixes `listener.name.NAME.` and of a SASL mechanism."""
    if not name.startswith(LISTENER_PREFIX):
        return name
    plain = name.split(".", 3)[-1]
    return plain if plain in KNOWN_NAMES else plain.partition(".")[2]
