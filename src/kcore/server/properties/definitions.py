"""The definitions of the settings in server.properties: type, bounds, and the values of a list.

A test compares the definitions with Kafka's jars. Source: AbstractKafkaConfig.CONFIG_DEF of 4.4.0.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from kcore.releases.broker_settings import TYPES
from kcore.releases.known import NEWEST
from kcore.releases.settings import TopicConfig
from kcore.schema.configs import ConfigType

KNOWN_NAMES: Final = NEWEST.setting_names
PREFIXES: Final = ("listener.name.", "config.providers", "metrics.reporters.")  # A user's own names follow these.


_AT_LEAST: Final = {
    -2: "log.local.retention.bytes log.local.retention.ms",
    -1: """
        group.coordinator.append.linger.ms log.remote.copy.lag.bytes log.remote.copy.lag.ms
        remote.log.index.file.cache.ttl.ms share.coordinator.append.linger.ms
    """,
    0: """
        add.partitions.to.txn.retry.backoff.max.ms connection.failed.authentication.delay.ms
        controller.performance.always.log.threshold.ms controller.quorum.append.linger.ms
        controller.quorum.election.backoff.max.ms controller.quorum.election.timeout.ms
        controller.quorum.fetch.timeout.ms controller.quorum.request.timeout.ms
        controller.quorum.retry.backoff.ms group.consumer.assignment.interval.ms
        group.consumer.max.assignment.interval.ms group.consumer.min.assignment.interval.ms
        group.share.assignment.interval.ms group.share.max.assignment.interval.ms
        group.share.min.assignment.interval.ms group.streams.acceptable.recovery.lag
        group.streams.assignment.interval.ms group.streams.initial.rebalance.delay.ms
        group.streams.max.assignment.interval.ms group.streams.max.standby.replicas
        group.streams.max.warmup.replicas group.streams.min.assignment.interval.ms
        group.streams.num.standby.replicas group.streams.num.warmup.replicas log.cleaner.backoff.ms
        log.cleaner.delete.retention.ms log.cleaner.io.buffer.size log.cleaner.min.compaction.lag.ms
        log.cleaner.threads log.flush.offset.checkpoint.interval.ms
        log.flush.start.offset.checkpoint.interval.ms log.index.interval.bytes log.initial.task.delay.ms
        log.message.timestamp.after.max.ms log.message.timestamp.before.max.ms log.roll.jitter.hours
        log.segment.delete.delay.ms max.connection.creation.rate max.connections max.connections.per.ip
        max.incremental.fetch.session.cache.slots message.max.bytes metadata.log.max.snapshot.interval.ms
        metadata.max.idle.interval.ms node.id remote.log.metadata.custom.metadata.max.bytes
        replica.fetch.backoff.ms replica.fetch.max.bytes replica.fetch.response.max.bytes
        server.max.startup.time.ms
    """,
    1: """
        add.partitions.to.txn.retry.backoff.ms alter.log.dirs.replication.quota.window.num
        alter.log.dirs.replication.quota.window.size.seconds background.threads
        controller.quorum.fetch.max.bytes controller.quorum.fetch.snapshot.max.bytes
        controller.quota.window.num controller.quota.window.size.seconds
        delegation.token.expiry.check.interval.ms delegation.token.expiry.time.ms
        delegation.token.max.lifetime.ms group.consumer.heartbeat.interval.ms
        group.consumer.max.heartbeat.interval.ms group.consumer.max.session.timeout.ms group.consumer.max.size
        group.consumer.min.heartbeat.interval.ms group.consumer.min.session.timeout.ms
        group.consumer.session.timeout.ms group.coordinator.background.threads group.coordinator.threads
        group.max.size group.share.heartbeat.interval.ms group.share.initialize.retry.interval.ms
        group.share.max.heartbeat.interval.ms group.share.max.session.timeout.ms group.share.max.share.sessions
        group.share.min.heartbeat.interval.ms group.share.min.session.timeout.ms group.share.session.timeout.ms
        group.streams.heartbeat.interval.ms group.streams.max.heartbeat.interval.ms
        group.streams.max.session.timeout.ms group.streams.max.size group.streams.min.heartbeat.interval.ms
        group.streams.min.session.timeout.ms group.streams.min.task.offset.interval.ms
        group.streams.session.timeout.ms group.streams.task.offset.interval.ms
        kafka.metrics.polling.interval.secs leader.imbalance.check.interval.seconds
        log.cleaner.max.compaction.lag.ms log.dir.failure.timeout.ms log.flush.interval.messages
        log.retention.check.interval.ms log.roll.hours max.request.partition.size.limit
        metadata.log.max.record.bytes.between.snapshots metrics.num.samples metrics.sample.window.ms
        min.insync.replicas num.io.threads num.network.threads num.partitions num.recovery.threads.per.data.dir
        num.replica.fetchers offsets.commit.timeout.ms offsets.load.buffer.size
        offsets.retention.check.interval.ms offsets.retention.minutes offsets.topic.num.partitions
        offsets.topic.replication.factor offsets.topic.segment.bytes producer.id.expiration.check.interval.ms
        producer.id.expiration.ms queued.max.requests quota.window.num quota.window.size.seconds
        remote.fetch.max.wait.ms remote.list.offsets.request.timeout.ms
        remote.log.index.file.cache.total.size.bytes remote.log.manager.copier.thread.pool.size
        remote.log.manager.copy.max.bytes.per.second remote.log.manager.copy.quota.window.num
        remote.log.manager.copy.quota.window.size.seconds remote.log.manager.expiration.thread.pool.size
        remote.log.manager.fetch.max.bytes.per.second remote.log.manager.fetch.quota.window.num
        remote.log.manager.fetch.quota.window.size.seconds remote.log.manager.follower.thread.pool.size
        remote.log.manager.task.interval.ms remote.log.manager.task.retry.backoff.max.ms
        remote.log.manager.task.retry.backoff.ms remote.log.manager.thread.pool.size
        remote.log.reader.max.pending.tasks remote.log.reader.threads replication.quota.window.num
        replication.quota.window.size.seconds share.coordinator.cold.partition.snapshot.interval.ms
        share.coordinator.load.buffer.size share.coordinator.state.topic.min.isr
        share.coordinator.state.topic.num.partitions share.coordinator.state.topic.prune.interval.ms
        share.coordinator.state.topic.replication.factor share.coordinator.state.topic.segment.bytes
        share.coordinator.threads share.coordinator.write.timeout.ms socket.listen.backlog.size
        socket.request.max.bytes telemetry.max.bytes
        transaction.abort.timed.out.transaction.cleanup.interval.ms transaction.max.timeout.ms
        transaction.remove.expired.transaction.cleanup.interval.ms transaction.state.log.load.buffer.size
        transaction.state.log.min.isr transaction.state.log.num.partitions
        transaction.state.log.replication.factor transaction.state.log.segment.bytes
        transactional.id.expiration.ms unclean.leader.election.interval.ms
    """,
    4: "log.index.size.max.bytes",
    100: "controller.performance.sample.period.ms",
    1024: "fetch.max.bytes",
    10000: "group.consumer.regex.refresh.interval.ms",
    524288: """
        group.coordinator.cached.buffer.max.bytes share.coordinator.cached.buffer.max.bytes
    """,
    1048576: "log.segment.bytes",
    8388608: "metadata.log.segment.bytes",
}
_BETWEEN: Final = {
    "compression.gzip.level": (-1, 9),
    "compression.lz4.level": (1, 17),
    "compression.zstd.level": (-131072, 22),
    "group.share.delivery.count.limit": (2, 10),
    "group.share.max.delivery.count.limit": (5, 25),
    "group.share.max.partition.max.record.locks": (2000, 10000),
    "group.share.max.record.lock.duration.ms": (30000, 3600000),
    "group.share.max.size": (1, 1000),
    "group.share.min.delivery.count.limit": (2, 5),
    "group.share.min.partition.max.record.locks": (100, 2000),
    "group.share.min.record.lock.duration.ms": (1000, 30000),
    "group.share.partition.max.record.locks": (100, 10000),
    "group.share.record.lock.duration.ms": (1000, 3600000),
    "max.decompressed.message.bytes": (1, 2**31 - 9),
    "sasl.oauthbearer.assertion.claim.exp.seconds": (0, 86400),
    "sasl.oauthbearer.assertion.claim.nbf.seconds": (0, 3600),
    "share.coordinator.snapshot.update.records.per.snapshot": (0, 500),
    "log.cleaner.min.cleanable.ratio": (0, 1),
    "remote.log.manager.task.retry.jitter": (0, 0.5),
}
_OF_CODECS: Final = NEWEST.topic_configs["compression.type"].among
_AMONG: Final = {
    "process.roles": ("broker", "controller"),
    "log.cleanup.policy": ("compact", "delete"),
    "group.coordinator.rebalance.protocols": ("consumer", "classic", "share", "streams"),
    "log.message.timestamp.type": ("CreateTime", "LogAppendTime"),
    "security.inter.broker.protocol": ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
    "ssl.client.auth": ("required", "requested", "none"),
    "compression.type": _OF_CODECS,
}
_IN_ANY_CASE: Final = {
    "group.consumer.migration.policy": ("DISABLED", "DOWNGRADE", "UPGRADE", "BIDIRECTIONAL"),
    "sasl.oauthbearer.assertion.algorithm": ("ES256", "RS256"),
}
_NEVER_EMPTY: Final = """
    advertised.listeners controller.listener.names group.consumer.assignors group.coordinator.rebalance.protocols
    group.share.assignors group.streams.assignors listeners log.dir log.dirs process.roles
    remote.log.metadata.manager.class.name remote.log.metadata.manager.impl.prefix
    remote.log.metadata.manager.listener.name remote.log.storage.manager.class.name
    remote.log.storage.manager.impl.prefix
"""
_POSITIVE: Final = """
    controller.quorum.election.timeout.ms controller.quorum.fetch.timeout.ms controller.quorum.election.backoff.max.ms
    controller.quorum.request.timeout.ms controller.quorum.retry.backoff.ms broker.session.timeout.ms
    broker.heartbeat.interval.ms initial.broker.registration.timeout.ms replica.lag.time.max.ms
    replica.fetch.wait.max.ms replica.fetch.min.bytes replica.fetch.max.bytes replica.fetch.response.max.bytes
    replica.fetch.backoff.ms sasl.server.max.receive.size
    metadata.log.segment.ms internal.metadata.log.segment.bytes
"""
STRICTER: Final[Mapping[str, tuple[int, int | None]]] = dict.fromkeys(_POSITIVE.split(), (1, None)) | {
    "default.replication.factor": (1, 2**15 - 1)
}
"""Tighter bounds than Kafka's: a Kafka node starts with a value beyond them, but does not work."""


def _definitions() -> dict[str, TopicConfig]:
    found = {name: TopicConfig(name, TYPES[name], "") for name in KNOWN_NAMES}
    never_empty = {*_NEVER_EMPTY.split()}
    for at_least, names in _AT_LEAST.items():
        found |= {name: replace(found[name], at_least=at_least) for name in names.split()}
    found |= {name: replace(found[name], at_least=least, at_most=most) for name, (least, most) in _BETWEEN.items()}
    found |= {name: replace(found[name], among=among) for name, among in _AMONG.items()}
    found |= {name: replace(found[name], among=among, ignores_case=True) for name, among in _IN_ANY_CASE.items()}
    found |= {name: replace(found[name], at_least=least, at_most=most) for name, (least, most) in STRICTER.items()}
    return {
        name: replace(each, is_set=each.kind == ConfigType.LIST, may_be_empty=name not in never_empty)
        for name, each in found.items()
    }


DEFINITIONS: Final = _definitions()
"""The definitions by name, of all settings of the default release."""
