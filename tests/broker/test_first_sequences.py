"""The first sequence of a producer that a partition does not know (KAFKA-15591, as fixed in Kafka's trunk)."""

import pytest

from broker.cluster import led
from broker.test_transactions import delete_records
from kcore.protocol_errors import Errors


def test_a_batch_that_overtook_the_first_one_is_refused_and_both_are_written_in_order() -> None:
    cluster = led()
    overtaking = cluster.produce(1, b"b", acks=1, producer=(7, 0, 1))
    assert cluster.code(overtaking) is Errors.OUT_OF_ORDER_SEQUENCE_NUMBER
    for sequence, value in enumerate((b"a", b"b")):
        assert cluster.code(cluster.produce(1, value, acks=1, producer=(7, 0, sequence))) is Errors.NONE
    cluster.run()
    assert cluster.values(1) == [b"a", b"b"]


def test_any_first_sequence_is_taken_once_the_log_has_had_a_record() -> None:
    cluster = led()
    assert cluster.code(cluster.produce(1, b"of another", acks=1)) is Errors.NONE
    assert cluster.code(cluster.produce(1, b"b", acks=1, producer=(7, 0, 5))) is Errors.NONE


@pytest.mark.parametrize("sequence", [0, 5])
def test_a_log_whose_records_were_deleted_is_no_new_one(sequence: int) -> None:
    cluster = led()
    cluster.produce(1, b"gone", acks=1)
    cluster.run()
    delete_records(cluster, 1)
    cluster.run()
    assert (cluster.log(1).start_offset, cluster.log(1).end_offset) == (1, 1)
    assert cluster.code(cluster.produce(1, b"b", acks=1, producer=(7, 0, sequence))) is Errors.NONE
