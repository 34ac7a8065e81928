"""The defaults of all settings of brokers and controllers of Kafka 4.3.1: `name=default`, or a name without default.

The lines are in the order of a controller's answer, because names with the same hash keep their order. Source:
AbstractKafkaConfig.CONFIG_DEF, ConfigHelper.allConfigs.
"""

from collections.abc import Mapping
from typing import Final

DEFAULT_LOG_DIR: Final = "/tmp/kafka-logs"
_DEFAULTS: Final = """
    log.cleaner.min.compaction.lag.ms=0 offsets.topic.num.partitions=50
    sasl.oauthbearer.jwks.endpoint.refresh.ms=3600000 remote.log.metadata.manager.listener.name
    log.flush.interval.messages=9223372036854775807 controller.socket.timeout.ms=30000 log.flush.interval.ms
    principal.builder.class=org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder
    controller.quorum.request.timeout.ms=2000 min.insync.replicas=1 sasl.oauthbearer.expected.audience=
    remote.log.manager.thread.pool.size=2 group.consumer.max.session.timeout.ms=60000
    num.recovery.threads.per.data.dir=2 ssl.keystore.type=JKS sasl.oauthbearer.assertion.private.key.file
    share.coordinator.state.topic.replication.factor=3 controller.quorum.bootstrap.servers=
    sasl.mechanism.inter.broker.protocol=GSSAPI metadata.log.segment.bytes=1073741824
    fetch.purgatory.purge.interval.requests=1000 group.streams.num.standby.replicas=0
    group.share.record.lock.duration.ms=30000 ssl.endpoint.identification.algorithm=https
    replica.socket.timeout.ms=30000 message.max.bytes=1048588 share.coordinator.state.topic.segment.bytes=104857600
    remote.log.manager.fetch.max.bytes.per.second=9223372036854775807 group.share.session.timeout.ms=45000
    max.connection.creation.rate=2147483647 sasl.oauthbearer.assertion.claim.exp.seconds=300
    connections.max.reauth.ms=0 share.coordinator.state.topic.min.isr=2
    remote.log.manager.copy.quota.window.size.seconds=1 log.flush.offset.checkpoint.interval.ms=60000
    sasl.oauthbearer.assertion.claim.aud quota.window.num=11 sasl.oauthbearer.clock.skew.seconds=30
    group.share.min.assignment.interval.ms=0 group.consumer.min.session.timeout.ms=45000 authorizer.class.name=
    num.replica.fetchers=1 alter.log.dirs.replication.quota.window.size.seconds=1 sasl.oauthbearer.scope
    sasl.oauthbearer.jwks.endpoint.url remote.log.metadata.custom.metadata.max.bytes=128 log.roll.jitter.hours=0
    telemetry.max.bytes=1048576 log.cleaner.delete.retention.ms=86400000 sasl.oauthbearer.assertion.file
    sasl.login.retry.backoff.ms=100 queued.max.requests=500 log.cleaner.threads=1 sasl.kerberos.service.name
    socket.request.max.bytes=104857600 group.consumer.max.size=2147483647 group.consumer.assignors=uniform,range
    remote.log.storage.system.enable=false log.message.timestamp.type=CreateTime connections.max.idle.ms=600000
    max.connections=2147483647 delegation.token.expiry.time.ms=86400000 transaction.state.log.num.partitions=50
    controller.quorum.election.timeout.ms=1000
    listener.security.protocol.map=SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT
    log.retention.hours=168 client.quota.callback.class remote.log.storage.manager.impl.prefix=rsm.config.
    ssl.provider delete.records.purgatory.purge.interval.requests=1 producer.id.expiration.ms=86400000 log.roll.ms
    ssl.cipher.suites= controller.quorum.retry.backoff.ms=20
    remote.log.manager.copy.max.bytes.per.second=9223372036854775807 broker.session.timeout.ms=9000
    security.inter.broker.protocol=PLAINTEXT group.consumer.assignment.interval.ms=1000
    group.share.heartbeat.interval.ms=5000 delegation.token.secret.key remote.log.manager.fetch.quota.window.num=11
    remote.fetch.max.wait.ms=500 group.streams.max.heartbeat.interval.ms=15000
    sasl.oauthbearer.assertion.claim.jti.include=false node.id replica.high.watermark.checkpoint.interval.ms=5000
    replication.quota.window.size.seconds=1 log.local.retention.ms=-2 share.coordinator.append.linger.ms=-1
    remote.log.reader.threads=10 share.coordinator.snapshot.update.records.per.snapshot=500
    follower.fetch.last.tiered.offset.enable=false sasl.kerberos.ticket.renew.window.factor=0.8
    group.coordinator.threads=4 sasl.oauthbearer.assertion.private.key.passphrase metrics.recording.level=INFO
    sasl.oauthbearer.assertion.template.file log.dir.failure.timeout.ms=30000
    transaction.partition.verification.enable=true controller.quorum.auto.join.enable=false
    group.share.min.heartbeat.interval.ms=5000 ssl.principal.mapping.rules=DEFAULT
    remote.log.manager.fetch.quota.window.size.seconds=1 replica.selector.class max.connections.per.ip=2147483647
    background.threads=10 group.streams.max.assignment.interval.ms=15000 request.timeout.ms=30000
    add.partitions.to.txn.retry.backoff.ms=20 sasl.login.class remote.log.index.file.cache.total.size.bytes=1073741824
    log.dir log.segment.bytes=1073741824 replica.fetch.response.max.bytes=10485760
    group.max.session.timeout.ms=1800000 group.consumer.heartbeat.interval.ms=5000 controller.listener.names
    log.message.timestamp.after.max.ms=3600000 controller.quorum.append.linger.ms=25 log.retention.minutes
    log.segment.delete.delay.ms=60000 log.dirs early.start.listeners controlled.shutdown.enable=true
    share.coordinator.state.topic.compression.codec=0 log.message.timestamp.before.max.ms=9223372036854775807
    group.share.min.partition.max.record.locks=100 remote.log.manager.copier.thread.pool.size=10
    socket.connection.setup.timeout.max.ms=30000 sasl.login.refresh.min.period.seconds=60
    sasl.oauthbearer.scope.claim.name=scope sasl.oauthbearer.expected.issuer sasl.login.read.timeout.ms
    transaction.abort.timed.out.transaction.cleanup.interval.ms=10000 sasl.kerberos.kinit.cmd=/usr/bin/kinit
    group.consumer.min.assignment.interval.ms=0 log.cleaner.io.max.bytes.per.second=1.7976931348623157E308
    auto.leader.rebalance.enable=true leader.imbalance.check.interval.seconds=300 log.cleaner.min.cleanable.ratio=0.5
    group.share.min.record.lock.duration.ms=15000 replica.lag.time.max.ms=30000 num.network.threads=3
    group.share.min.session.timeout.ms=45000 ssl.keystore.key sasl.client.callback.handler.class
    compression.gzip.level=-1 metrics.num.samples=2 socket.send.buffer.bytes=102400
    group.coordinator.rebalance.protocols=classic,consumer,streams remote.log.storage.manager.class.name
    socket.receive.buffer.bytes=102400 group.streams.initial.rebalance.delay.ms=3000 replica.fetch.min.bytes=1
    group.streams.max.session.timeout.ms=60000 sasl.oauthbearer.sub.claim.name=sub broker.rack
    unclean.leader.election.enable=false sasl.oauthbearer.jwks.endpoint.retry.backoff.ms=100
    offsets.retention.check.interval.ms=600000 group.share.min.delivery.count.limit=2
    producer.purgatory.purge.interval.requests=1000 controller.quorum.voters= group.share.assignors=simple
    metrics.sample.window.ms=30000 log.retention.check.interval.ms=300000 group.consumer.session.timeout.ms=45000
    sasl.login.refresh.window.jitter=0.05 group.share.max.assignment.interval.ms=15000 controller.quota.window.num=11
    group.streams.session.timeout.ms=45000 metric.reporters=org.apache.kafka.common.metrics.JmxReporter
    sasl.oauthbearer.token.endpoint.url auto.create.topics.enable=true group.share.partition.max.record.locks=2000
    ssl.engine.factory.class replica.socket.receive.buffer.bytes=65536 ssl.allow.dn.changes=false
    replica.fetch.wait.max.ms=500 group.coordinator.background.threads=2 group.consumer.min.heartbeat.interval.ms=5000
    group.share.max.delivery.count.limit=10 group.streams.min.session.timeout.ms=45000 default.replication.factor=1
    ssl.truststore.password group.share.assignment.interval.ms=1000 log.preallocate=false
    sasl.kerberos.principal.to.local.rules=DEFAULT remote.log.reader.max.pending.tasks=100
    transactional.id.expiration.ms=604800000 transaction.state.log.replication.factor=3 num.io.threads=8
    group.streams.max.size=2147483647 sasl.login.refresh.buffer.seconds=300
    connection.failed.authentication.delay.ms=100 group.share.max.heartbeat.interval.ms=15000
    share.coordinator.write.timeout.ms=5000 delete.topic.enable=true quota.window.size.seconds=1
    ssl.truststore.type=JKS offsets.commit.timeout.ms=5000 sasl.oauthbearer.assertion.algorithm=RS256
    broker.heartbeat.interval.ms=2000 sasl.mechanism.controller.protocol=GSSAPI
    group.share.max.record.lock.duration.ms=60000 log.cleaner.max.compaction.lag.ms=9223372036854775807
    remote.log.storage.manager.class.path log.retention.ms share.fetch.purgatory.purge.interval.requests=1000
    alter.log.dirs.replication.quota.window.num=11 log.cleaner.enable=true controller.quorum.fetch.timeout.ms=2000
    offsets.load.buffer.size=5242880 ssl.client.auth=none offsets.topic.replication.factor=3
    transaction.state.log.min.isr=2 ssl.secure.random.implementation sasl.kerberos.ticket.renew.jitter=0.05
    ssl.trustmanager.algorithm=PKIX group.streams.assignment.interval.ms=1000 log.local.retention.bytes=-2
    log.retention.bytes=-1 remote.log.metadata.manager.impl.prefix=rlmm.config. controller.quota.window.size.seconds=1
    sasl.jaas.config share.coordinator.state.topic.num.partitions=50 sasl.kerberos.min.time.before.relogin=60000
    offsets.retention.minutes=10080 replica.fetch.backoff.ms=1000 group.share.delivery.count.limit=5
    kafka.metrics.reporters= compression.zstd.level=3 ssl.allow.san.changes=false
    remote.log.manager.copy.quota.window.num=11 num.partitions=1 ssl.keystore.certificate.chain
    socket.connection.setup.timeout.ms=10000 listeners=PLAINTEXT://:9092 sasl.oauthbearer.client.credentials.client.id
    ssl.enabled.protocols=TLSv1.2,TLSv1.3 inter.broker.listener.name sasl.oauthbearer.assertion.claim.nbf.seconds=60
    alter.config.policy.class.name delegation.token.expiry.check.interval.ms=3600000
    log.flush.scheduler.interval.ms=9223372036854775807 remote.log.manager.expiration.thread.pool.size=10
    group.consumer.max.assignment.interval.ms=15000 log.index.size.max.bytes=10485760
    group.share.max.share.sessions=2000 ssl.keymanager.algorithm=SunX509 sasl.login.callback.handler.class
    replica.fetch.max.bytes=1048576 sasl.server.callback.handler.class
    share.coordinator.cached.buffer.max.bytes=1048588 log.cleaner.dedupe.buffer.size=134217728
    log.cleaner.io.buffer.size=524288 config.providers= create.topic.policy.class.name socket.listen.backlog.size=50
    ssl.truststore.certificates controller.quorum.fetch.snapshot.max.bytes=1048576
    sasl.oauthbearer.jwt.validator.class=org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator
    share.coordinator.threads=1 sasl.server.max.receive.size=524288 security.providers
    metadata.log.max.snapshot.interval.ms=3600000 group.streams.max.standby.replicas=2 compression.lz4.level=9
    log.roll.hours=168 controller.quorum.fetch.max.bytes=1048576 log.cleanup.policy=delete
    initial.broker.registration.timeout.ms=60000 log.flush.start.offset.checkpoint.interval.ms=60000
    log.roll.jitter.ms transaction.state.log.segment.bytes=104857600 offsets.topic.segment.bytes=104857600
    sasl.oauthbearer.assertion.claim.sub metadata.max.idle.interval.ms=500
    remote.log.metadata.manager.class.name=org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager
    sasl.oauthbearer.client.credentials.client.secret remote.log.manager.task.interval.ms=30000
    sasl.login.retry.backoff.max.ms=10000 group.initial.rebalance.delay.ms=3000 log.index.interval.bytes=4096
    log.cleaner.backoff.ms=15000 share.coordinator.load.buffer.size=5242880 cordoned.log.dirs=
    offset.metadata.max.bytes=4096 ssl.truststore.location ssl.keystore.password
    transaction.two.phase.commit.enable=false fetch.max.bytes=57671680 metadata.max.retention.bytes=104857600
    compression.type=producer group.streams.min.assignment.interval.ms=0 sasl.login.connect.timeout.ms
    max.connections.per.ip.overrides= remote.log.metadata.manager.class.path
    group.consumer.max.heartbeat.interval.ms=15000 sasl.login.refresh.window.factor=0.8
    kafka.metrics.polling.interval.secs=10 add.partitions.to.txn.retry.backoff.max.ms=100
    remote.log.manager.follower.thread.pool.size=2 metadata.log.max.record.bytes.between.snapshots=20971520
    metadata.max.retention.ms=604800000 group.share.max.size=200 controller.quorum.election.backoff.max.ms=1000
    max.incremental.fetch.session.cache.slots=1000 sasl.oauthbearer.assertion.claim.iss
    group.share.max.partition.max.record.locks=4000 ssl.key.password
    transaction.remove.expired.transaction.cleanup.interval.ms=3600000 ssl.protocol=TLSv1.3
    group.consumer.migration.policy=bidirectional metadata.log.segment.ms=604800000
    transaction.state.log.load.buffer.size=5242880 group.coordinator.append.linger.ms=-1 ssl.keystore.location
    remote.list.offsets.request.timeout.ms=30000 num.replica.alter.log.dirs.threads sasl.enabled.mechanisms=GSSAPI
    sasl.oauthbearer.jwt.retriever.class=org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever
    group.share.max.session.timeout.ms=60000 group.min.session.timeout.ms=6000 metadata.log.dir
    log.cleaner.io.buffer.load.factor=0.9 transaction.max.timeout.ms=900000 group.streams.heartbeat.interval.ms=5000
    process.roles group.max.size=2147483647 broker.id=-1 max.request.partition.size.limit=2000
    offsets.topic.compression.codec=0 sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms=10000
    delegation.token.max.lifetime.ms=604800000 replication.quota.window.num=11
    group.streams.min.heartbeat.interval.ms=5000 advertised.listeners
    group.coordinator.cached.buffer.max.bytes=1048588 queued.max.request.bytes=-1
"""
DEFAULTS: Final[Mapping[str, str | None]] = {
    name: value if is_set else None for name, is_set, value in (each.partition("=") for each in _DEFAULTS.split())
} | {"log.dir": DEFAULT_LOG_DIR}
