"""Kafka's limit of 10,000 records a request. kcore has it only if the departure "record-limits" is switched off."""

from typing import Final

from kcore.controller.kraft.departures import RECORD_LIMITS
from kcore.controller.kraft.kraft_context import ControllerContext
from kcore.protocol_errors import Errors

MOST_RECORDS: Final = 10_000  # QuorumController.MAX_RECORDS_PER_USER_OP, ReplicationControlManager's of partitions too.
TOO_LARGE: Final = "Unable to perform excessively large batch operation."  # BoundedList


def has_limits(context: ControllerContext) -> bool:
    """Whether Kafka's limits on the records of a request hold."""
    return RECORD_LIMITS in context.config.kafka_way


def check_records(context: ControllerContext, count: int) -> None:
    """PolicyViolationException for more records than a request may write (BoundedList)."""
    if count > MOST_RECORDS and has_limits(context):
        Errors.POLICY_VIOLATION.raise_for(TOO_LARGE)
