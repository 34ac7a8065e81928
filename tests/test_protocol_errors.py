"""Kafka's error codes and the exceptions that stand for them."""

import pickle

import pytest

import kcore.protocol_errors as protocol_errors
from kcore.protocol_errors import ApiException, Errors, RetriableException


def test_every_error_but_none_has_an_exception_of_kafkas_name() -> None:
    for error in Errors:
        if error is Errors.NONE:
            assert error.exception is None
            error.raise_for()
            continue
        exception = error.exception
        assert exception is not None and exception.error is error
        assert exception.__name__.endswith("Exception") or error in (
            Errors.OFFSET_METADATA_TOO_LARGE,
            Errors.INVALID_REGULAR_EXPRESSION,
        )
        assert getattr(protocol_errors, exception.__name__) is exception


@pytest.mark.parametrize(
    ("code", "name"),
    [
        (11, "ControllerMovedException"),
        (41, "NotControllerException"),
        (74, "FencedLeaderEpochException"),
        (77, "StaleBrokerEpochException"),
        (101, "DuplicateBrokerRegistrationException"),
        (107, "IneligibleReplicaException"),
    ],
)
def test_codes_of_the_control_plane(code: int, name: str) -> None:
    with pytest.raises(ApiException, match="said so") as raised:
        Errors(code).raise_for("said so")
    assert type(raised.value).__name__ == name


def test_retriable_errors_and_unknown_codes() -> None:
    assert issubclass(Errors.NOT_CONTROLLER.exception or object, RetriableException)
    assert not issubclass(Errors.STALE_BROKER_EPOCH.exception or object, RetriableException)
    assert Errors.of(77) is Errors.STALE_BROKER_EPOCH
    assert Errors.of(12_345) is Errors.UNKNOWN_SERVER_ERROR


def test_exceptions_survive_a_trip_between_processes() -> None:
    exception = Errors.STALE_BROKER_EPOCH.exception
    assert exception is not None
    assert type(pickle.loads(pickle.dumps(exception("old")))) is exception
