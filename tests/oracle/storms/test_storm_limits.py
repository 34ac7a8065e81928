"""The limits of a real Kafka 4.4.0 controller, as the storm shows them."""

import json
import os
import re
import subprocess
import sys

import pytest

from kcore.measure.storm.kraft.scenarios import BREAKS_CONTROLLER, LIMITS

COMMAND = (sys.executable, "-c", "from kcore.cli import main; main()", "storm")
LIMIT_S = 300


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict]:
    """Rows by scenario of one run of all limits."""
    folder = tmp_path_factory.mktemp("limits")
    arguments = [*LIMITS, "--brokers", "20", "--partitions", "1000", "--out", str(folder / "out"), "--json"]
    done = subprocess.run(
        [*COMMAND, *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT_S,
        env=os.environ | {"TMPDIR": str(folder)},
    )
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert all(row["note"] in done.stderr for row in rows)
    return {row["scenario"]: row for row in rows}


def test_a_request_of_10_000_records_makes_topics_and_one_more_is_refused_whole(shown: dict[str, dict]):
    row = shown["limit-create"]
    assert row["changes"] == 9_999
    assert row["note"] == (
        "a topic of 9,999 partitions, 10,000 records in one request: done; of 10,000: "
        "POLICY_VIOLATION (Unable to perform excessively large batch operation.), 0 made"
    )


def test_a_request_of_10_001_new_partitions_is_refused_whole(shown: dict[str, dict]):
    """Controllers of 4.3.1 answer with UNKNOWN_SERVER_ERROR, and create 10,000."""
    assert shown["limit-partitions"]["changes"] == 0
    refused = "POLICY_VIOLATION (Excessively large number of additional partitions per request.); 0 are made"
    assert shown["limit-partitions"]["note"].endswith(refused)


@pytest.mark.parametrize(
    ("scenario", "answered"),
    [
        ("limit-reassign", "10,000 x done, 1 x UNKNOWN_SERVER_ERROR; 10,000 are changed"),
        ("limit-delete", "10,000 x done, 1 x UNKNOWN_SERVER_ERROR; 10,000 are deleted"),
    ],
)
def test_10_001_of_a_request_are_refused_and_10_000_of_them_done(shown: dict[str, dict], scenario: str, answered: str):
    assert shown[scenario]["changes"] == 10_000
    assert shown[scenario]["note"].endswith(answered)


@pytest.mark.parametrize(("scenario", "what"), [("limit-elect", "elections"), ("limit-isr", "ISRs")])
def test_10_000_changes_of_a_request_are_a_fault_and_9_999_are_none(shown: dict[str, dict], scenario: str, what: str):
    note = shown[scenario]["note"]
    assert note.startswith(f"9,999 {what}") and ": 9,999 x done; 10,000: UNKNOWN_SERVER_ERROR" in note
    # Whether the first batch gets out before the controller resigns is a race.
    assert shown[scenario]["changes"] in (0, 10_000)


def test_a_lost_broker_with_9_999_partitions_is_a_fault(shown: dict[str, dict]):
    assert shown["limit-fence"]["records"]["BrokerRegistrationChangeRecord"] >= 1
    assert shown["limit-fence"]["note"].startswith("a broker with 9,999 partitions is lost")


@pytest.mark.parametrize("scenario", sorted(BREAKS_CONTROLLER))
def test_a_fault_makes_the_active_controller_resign_and_another_epoch_serves(shown: dict[str, dict], scenario: str):
    found = re.search(r"the active controller resigns, epoch (\d+) to (\d+), and serves", shown[scenario]["note"])
    assert found and int(found[2]) > int(found[1])
    assert shown[scenario]["waves_ms"]["serves again"] > 0


def test_the_cluster_is_as_before_after_each(shown: dict[str, dict]):
    """Each row's partitions are those that were there, and its own; a topic of one tells that it serves again."""
    assert [shown[name]["brokers"] for name in LIMITS] == [20] * 6 + [19]
    assert shown["limit-elect"]["partitions"] == 1000 + 10_000 + 1
    assert shown["limit-isr"]["partitions"] == 1001 + 10_000 + 1
