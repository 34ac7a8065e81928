"""All settings that server.properties may have in Kafka 4.3.1; others are refused.

Source: AbstractKafkaConfig.CONFIG_DEF.
"""

from typing import Final

from kcore.controller.kraft.admin.broker_defaults import DEFAULTS

_INTERNAL: Final = """
    controller.performance.always.log.threshold.ms controller.performance.sample.period.ms
    group.consumer.regex.refresh.interval.ms group.share.initialize.retry.interval.ms group.share.persister.class.name
    internal.metadata.delete.delay.millis internal.metadata.log.segment.bytes
    internal.metadata.max.batch.size.in.bytes log.initial.task.delay.ms producer.id.expiration.check.interval.ms
    remote.log.index.file.cache.ttl.ms remote.log.manager.task.retry.backoff.max.ms
    remote.log.manager.task.retry.backoff.ms remote.log.manager.task.retry.jitter server.max.startup.time.ms
    share.coordinator.cold.partition.snapshot.interval.ms share.coordinator.state.topic.prune.interval.ms
    unclean.leader.election.interval.ms unstable.api.versions.enable unstable.feature.versions.enable
"""
KNOWN_NAMES: Final = frozenset([*DEFAULTS, *_INTERNAL.split()])
PREFIXES: Final = ("listener.name.", "config.providers.", "metrics.reporters.")  # A user's own names follow these.
