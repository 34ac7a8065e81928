"""DescribeProducers: the active producers of a partition's log (KIP-664; Partition.activeProducerState)."""

from typing import TYPE_CHECKING

from kcore.broker.replicas.producers import Producer
from kcore.broker.replicas.replica import Key
from kcore.protocol_errors import ApiException
from kcore.schema.producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)

if TYPE_CHECKING:
    from kcore.broker.replicas.replica_manager import ReplicaManager


def on_describe_producers(manager: "ReplicaManager", request: DescribeProducersRequest) -> DescribeProducersResponse:
    """Every replica answers, also one that follows. A partition that is named again is answered once.

    A partition may have thousands of producers: without this rule a small request would have an answer without bound.
    """
    topics, answered = [], set[Key]()
    for topic in request.topics:
        keys = dict.fromkeys((topic.name, index) for index in topic.partition_indexes)
        partitions = [_partition(manager, key) for key in keys if key not in answered]
        answered.update(keys)
        topics.append(TopicResponse(name=topic.name, partitions=partitions))
    return DescribeProducersResponse(topics=topics)


def _partition(manager: "ReplicaManager", key: Key) -> PartitionResponse:
    answer = PartitionResponse(partition_index=key[1], active_producers=[])
    try:
        log = manager.partition(key).local_log(-1, must_lead=False)
        answer.active_producers = [_producer(*each) for each in log.producers.by_id.items()]
    except ApiException as error:
        answer.error_code, answer.error_message = error.error, str(error)
    return answer


def _producer(producer_id: int, producer: Producer) -> ProducerState:
    open_since = producer.transaction_offset
    return ProducerState(
        producer_id=producer_id,
        producer_epoch=producer.epoch,
        last_sequence=producer.batches[-1].last_sequence if producer.batches else -1,
        last_timestamp=producer.last_timestamp,
        coordinator_epoch=producer.coordinator_epoch,
        current_txn_start_offset=-1 if open_since is None else open_since,
    )
