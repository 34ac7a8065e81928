"""The names of the settings that server.properties may have, by release.

Those of 4.3.1 are the names of its defaults, and internal ones. Releases before it differ by the names below. A test
compares all with Kafka's jars. Source: AbstractKafkaConfig.CONFIG_DEF.
"""

from typing import Final

from kcore.releases.broker_defaults import DEFAULTS

_INTERNAL: Final = """
    controller.performance.always.log.threshold.ms controller.performance.sample.period.ms
    group.consumer.regex.refresh.interval.ms group.share.initialize.retry.interval.ms
    group.share.persister.class.name internal.metadata.delete.delay.millis internal.metadata.log.segment.bytes
    internal.metadata.max.batch.size.in.bytes log.initial.task.delay.ms producer.id.expiration.check.interval.ms
    remote.log.index.file.cache.ttl.ms remote.log.manager.task.retry.backoff.max.ms
    remote.log.manager.task.retry.backoff.ms remote.log.manager.task.retry.jitter server.max.startup.time.ms
    share.coordinator.cold.partition.snapshot.interval.ms share.coordinator.state.topic.prune.interval.ms
    unclean.leader.election.interval.ms unstable.api.versions.enable unstable.feature.versions.enable
"""
_ADDED_BY_4_1: Final = """
    add.partitions.to.txn.retry.backoff.max.ms add.partitions.to.txn.retry.backoff.ms
    controller.performance.always.log.threshold.ms controller.performance.sample.period.ms
    group.consumer.regex.refresh.interval.ms group.share.assignors group.share.max.share.sessions
    group.share.persister.class.name group.streams.heartbeat.interval.ms group.streams.max.heartbeat.interval.ms
    group.streams.max.session.timeout.ms group.streams.max.size group.streams.max.standby.replicas
    group.streams.min.heartbeat.interval.ms group.streams.min.session.timeout.ms group.streams.num.standby.replicas
    group.streams.session.timeout.ms internal.metadata.delete.delay.millis internal.metadata.log.segment.bytes
    internal.metadata.max.batch.size.in.bytes internal.metadata.max.fetch.size.in.bytes
    remote.list.offsets.request.timeout.ms sasl.oauthbearer.assertion.algorithm sasl.oauthbearer.assertion.claim.aud
    sasl.oauthbearer.assertion.claim.exp.seconds sasl.oauthbearer.assertion.claim.iss
    sasl.oauthbearer.assertion.claim.jti.include sasl.oauthbearer.assertion.claim.nbf.seconds
    sasl.oauthbearer.assertion.claim.sub sasl.oauthbearer.assertion.file sasl.oauthbearer.assertion.private.key.file
    sasl.oauthbearer.assertion.private.key.passphrase sasl.oauthbearer.assertion.template.file
    sasl.oauthbearer.client.credentials.client.id sasl.oauthbearer.client.credentials.client.secret
    sasl.oauthbearer.jwt.retriever.class sasl.oauthbearer.jwt.validator.class sasl.oauthbearer.scope
    share.coordinator.append.linger.ms share.coordinator.cold.partition.snapshot.interval.ms
    share.coordinator.load.buffer.size share.coordinator.snapshot.update.records.per.snapshot
    share.coordinator.state.topic.compression.codec share.coordinator.state.topic.min.isr
    share.coordinator.state.topic.num.partitions share.coordinator.state.topic.prune.interval.ms
    share.coordinator.state.topic.replication.factor share.coordinator.state.topic.segment.bytes
    share.coordinator.threads share.coordinator.write.timeout.ms share.fetch.purgatory.purge.interval.requests
    transaction.two.phase.commit.enable
"""
_REMOVED_BY_4_1: Final = """
    auto.include.jmx.reporter broker.id.generation.enable control.plane.listener.name
    controlled.shutdown.max.retries controlled.shutdown.retry.backoff.ms delegation.token.master.key
    eligible.leader.replicas.enable group.coordinator.new.enable group.share.max.groups
    inter.broker.protocol.version leader.imbalance.per.broker.percentage log.message.downconversion.enable
    log.message.format.version log.message.timestamp.difference.max.ms metadata.log.segment.min.bytes
    offsets.commit.required.acks password.encoder.cipher.algorithm password.encoder.iterations
    password.encoder.key.length password.encoder.keyfactory.algorithm password.encoder.old.secret
    password.encoder.secret reserved.broker.max.id zookeeper.clientCnxnSocket zookeeper.connect
    zookeeper.connection.timeout.ms zookeeper.max.in.flight.requests zookeeper.metadata.migration.enable
    zookeeper.metadata.migration.min.batch.size zookeeper.session.timeout.ms zookeeper.set.acl
    zookeeper.ssl.cipher.suites zookeeper.ssl.client.enable zookeeper.ssl.crl.enable zookeeper.ssl.enabled.protocols
    zookeeper.ssl.endpoint.identification.algorithm zookeeper.ssl.keystore.location zookeeper.ssl.keystore.password
    zookeeper.ssl.keystore.type zookeeper.ssl.ocsp.enable zookeeper.ssl.protocol zookeeper.ssl.truststore.location
    zookeeper.ssl.truststore.password zookeeper.ssl.truststore.type
"""
_ADDED_BY_4_3: Final = """
    config.providers controller.quorum.auto.join.enable controller.quorum.fetch.max.bytes
    controller.quorum.fetch.snapshot.max.bytes cordoned.log.dirs follower.fetch.last.tiered.offset.enable
    group.consumer.assignment.interval.ms group.consumer.max.assignment.interval.ms
    group.consumer.min.assignment.interval.ms group.coordinator.background.threads
    group.coordinator.cached.buffer.max.bytes group.share.assignment.interval.ms
    group.share.initialize.retry.interval.ms group.share.max.assignment.interval.ms
    group.share.max.delivery.count.limit group.share.max.partition.max.record.locks
    group.share.min.assignment.interval.ms group.share.min.delivery.count.limit
    group.share.min.partition.max.record.locks group.streams.assignment.interval.ms
    group.streams.initial.rebalance.delay.ms group.streams.max.assignment.interval.ms
    group.streams.min.assignment.interval.ms remote.log.index.file.cache.ttl.ms
    remote.log.manager.follower.thread.pool.size share.coordinator.cached.buffer.max.bytes
"""
_REMOVED_BY_4_3: Final = """
    group.share.enable internal.metadata.max.fetch.size.in.bytes
"""
NAMES_4_3: Final = frozenset([*DEFAULTS, *_INTERNAL.split()])
NAMES_4_1: Final = NAMES_4_3 - {*_ADDED_BY_4_3.split()} | {*_REMOVED_BY_4_3.split()}
NAMES_3_9: Final = NAMES_4_1 - {*_ADDED_BY_4_1.split()} | {*_REMOVED_BY_4_1.split()}
INTERNAL_ADDED_BY_4_4: Final = """
    group.consumer.assignor.offload.enable group.share.assignor.offload.enable
    group.share.dlq.manager.class.name group.streams.acceptable.recovery.lag
    group.streams.assignor.offload.enable group.streams.max.warmup.replicas
    group.streams.min.task.offset.interval.ms group.streams.num.warmup.replicas
    group.streams.task.offset.interval.ms
"""
