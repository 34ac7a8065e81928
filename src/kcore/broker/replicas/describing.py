"""DescribeProducers: the active producers of a partition's log (KIP-664; Partition.activeProducerState)."""

from kcore.broker.replicas.partition import HeldPartitions
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


def on_describe_producers(
    manager: HeldPartitions, request: DescribeProducersRequest, described: set[Key]
) -> DescribeProducersResponse:
    """Answers for partitions that this broker leads or follows; once for a partition that the request has twice.

    `described`: the partitions that the client's request has an answer for already; those of this answer are added.
    """
    topics = {topic.name: TopicResponse(name=topic.name, partitions=[]) for topic in request.topics}
    for key in ((topic.name, index) for topic in request.topics for index in topic.partition_indexes):
        if key not in described:
            described.add(key)
            topics[key[0]].partitions.append(_partition(manager, key))
    return DescribeProducersResponse(topics=[*topics.values()])


def _partition(manager: HeldPartitions, key: Key) -> PartitionResponse:
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
