"""Kafka's error codes and the exceptions that stand for them."""

import json
import pickle
from pathlib import Path

import pytest

import kcore.protocol_errors as protocol_errors
from kcore.protocol_errors import ApiException, Errors, RetriableException

FACTS = Path(__file__).parent / "data" / "errors"


@pytest.mark.parametrize("release", ["3.9.1", "4.3.1", "4.4.0"])
def test_codes_and_exceptions_are_kafkas(release: str) -> None:
    """The newest release has all of them, and every older release has the first ones."""
    facts = json.loads((FACTS / f"{release}.json").read_text())
    for code, (name, exception, is_retriable) in facts.items():
        error = Errors(int(code))
        assert (error.name, error.exception and error.exception.__name__) == (name, exception)
        assert issubclass(error.exception or object, RetriableException) == is_retriable, name
    newest = max(map(int, facts))
    assert {each.value for each in Errors if each <= newest} == {int(code) for code in facts}
    assert release != "4.4.0" or newest == max(Errors)


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
