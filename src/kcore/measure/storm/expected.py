"""Errors that a scenario provokes: they belong to the measurement and are not reported as faults."""

from typing import Final

_OLD_SESSION: Final = "refused until the session of the broker's last incarnation has ended"
_NO_CONTROLLER: Final = "there is no active controller until another one is elected"
_CLOSED: Final = "a controller that ends closes its connections"
_ELECTION: Final = {"NOT_CONTROLLER": _NO_CONTROLLER, "connection closed": _CLOSED}

EXPECTED_ERRORS: Final[dict[str, dict[str, str]]] = {
    "bounce": {"DUPLICATE_BROKER_REGISTRATION": _OLD_SESSION},
    "broker-lost": {"DUPLICATE_BROKER_REGISTRATION": _OLD_SESSION},
    "rack-lost": {"DUPLICATE_BROKER_REGISTRATION": _OLD_SESSION},
    "controlled-shutdown": {"DUPLICATE_BROKER_REGISTRATION": _OLD_SESSION},
    "rolling-restart": {"DUPLICATE_BROKER_REGISTRATION": _OLD_SESSION},
    "assign": {"DUPLICATE_BROKER_REGISTRATION": _OLD_SESSION},
    "dir-lost": {"DUPLICATE_BROKER_REGISTRATION": _OLD_SESSION},
    "controller-killed": _ELECTION,
    "standby-takes-over": _ELECTION,
    "limit-elect": _ELECTION,
    "limit-isr": _ELECTION,
    "limit-fence": _ELECTION,
}
"""By scenario and error, the reason why the error is expected."""


def expected_of(scenario: str, errors: dict[str, int]) -> dict[str, int]:
    """The errors that the scenario provokes."""
    return {name: count for name, count in errors.items() if name in EXPECTED_ERRORS.get(scenario, {})}


def unexpected_of(scenario: str, errors: dict[str, int]) -> dict[str, int]:
    """The errors that the scenario does not provoke."""
    return {name: count for name, count in errors.items() if name not in EXPECTED_ERRORS.get(scenario, {})}
