"""Kafka's limit of 10,000 records per request, which applies only in Kafka's way ("record-limits")."""

from typing import Final

from kcore.controller.kraft.departures import RECORD_LIMITS
from kcore.controller.kraft.kraft_context import ControllerContext
from kcore.protocol_errors import Errors

MOST_RECORDS: Final = 10_000  # QuorumController.MAX_RECORDS_PER_USER_OP; the limit of partitions too.
TOO_LARGE: Final = "Unable to perform excessively large batch operation."  # BoundedList


def has_limits(context: ControllerContext) -> bool:
    """True if Kafka's limits on the records of a request apply."""
    return RECORD_LIMITS in context.config.kafka_way


def check_records(context: ControllerContext, count: int) -> None:
    """PolicyViolationException if a request would write too many records (BoundedList)."""
    if count > MOST_RECORDS and has_limits(context):
        Errors.POLICY_VIOLATION.raise_for(TOO_LARGE)
