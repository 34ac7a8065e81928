"""The default messages of Kafka's errors (Errors.message)."""

from typing import Final

from kcore.protocol_errors import ApiException, Errors

DEFAULT_MESSAGES: Final = {
    Errors.UNKNOWN_TOPIC_OR_PARTITION: "This server does not host this topic-partition.",
    Errors.UNKNOWN_TOPIC_ID: "This server does not host this topic ID.",
    Errors.TOPIC_AUTHORIZATION_FAILED: "Topic authorization failed.",
    Errors.GROUP_AUTHORIZATION_FAILED: "Group authorization failed.",
    Errors.CLUSTER_AUTHORIZATION_FAILED: "Cluster authorization failed.",
    Errors.NOT_CONTROLLER: "This is not the correct controller for this cluster.",
    Errors.TOPIC_DELETION_DISABLED: "Topic deletion is disabled.",
    Errors.INVALID_REQUEST: (
        "This most likely occurs because of a request being malformed by the client library or the message was sent "
        "to an incompatible broker. See the broker logs for more details."
    ),
}


def message_of(error: ApiException) -> str | None:
    """The message of an exception for the response; None for the error's default message (ApiError.fromThrowable)."""
    message = str(error)
    return None if message in ("", error.error.name, DEFAULT_MESSAGES.get(error.error)) else message
