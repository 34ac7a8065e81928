"""metadata.version: the jars' facts of 3.9.1 and 4.3.1 about every level, and the names of levels."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from kcore.errors import LevelError
from kcore.metadata.metadata_version import PLACES, VERSIONS, VERSIONS_BY_RELEASE, MetadataVersion
from kcore.releases.known import RELEASES

DATA = Path(__file__).parents[1] / "data"
FACTS = DATA / "metadata_versions"  # Printed by recorder/ReleaseFacts.java.
RECORDED = ("3.9.1", "4.3.1", "4.4.0")
NAMES = {
    "featureLevel": "feature_level",
    "isProduction": "is_production",
    "isLeaderRecoverySupported": "leader_recovery_supported",
    "isNoOpRecordSupported": "no_op_records_supported",
    "isBrokerRegistrationChangeRecordSupported": "broker_registration_changes_supported",
    "isInControlledShutdownStateSupported": "controlled_shutdown_in_log",
    "isMigrationSupported": "migration_supported",
    "isScramSupported": "scram_supported",
    "isLeaderEpochBumpRequiredOnIsrShrink": "epoch_bump_on_isr_shrink",
    "isMetadataTransactionSupported": "transactions_supported",
    "isDelegationTokenSupported": "delegation_tokens_supported",
    "isControllerRegistrationSupported": "controller_registration_supported",
    "isDirectoryAssignmentSupported": "directories_supported",
    "isElrSupported": "elr_supported",
    "isCidrAclSupported": "cidr_acls_supported",
    "isControllerUnregistrationSupported": "controller_unregistration_supported",
    "isCordonedLogDirsSupported": "cordoned_directories_supported",
    "partitionRecordVersion": "partition_record_version",
    "partitionChangeRecordVersion": "partition_record_version",
    "registerBrokerRecordVersion": "register_broker_record_version",
}
"""Methods of Kafka's MetadataVersion, and what they are here. FeatureLevelRecord's level is FeaturesImage's to know."""


def facts(release: str) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = json.loads((FACTS / f"{release}.json").read_text())
    return found


@pytest.mark.parametrize("release", RECORDED)
def test_every_level_is_as_the_jars_have_it(release: str) -> None:
    theirs = facts(release)
    for name, said in theirs.items():
        version = MetadataVersion.parse(f"{name}@{release}")
        ours = {method: getattr(version, here) for method, here in NAMES.items() if method in said}
        assert ours == {method: answer for method, answer in said.items() if method in NAMES}, name
    oldest, newest, default = VERSIONS_BY_RELEASE[release]
    assert (oldest, newest) == (next(iter(theirs)), next(reversed(theirs)))
    assert default == [name for name, said in theirs.items() if said["isProduction"]][-1]
    changed = {name for name, said in theirs.items() if said["didMetadataChange"] and name != oldest}
    assert {name for name in RELEASES[release].changed_metadata if PLACES[name] > PLACES[oldest]} == changed
    assert list(theirs) == [*VERSIONS[VERSIONS.index(oldest) : VERSIONS.index(newest) + 1]]


def test_all_that_the_jars_say_of_records_is_known() -> None:
    """A new method of a later release would be missing here."""
    of_requests = {"fetchRequestVersion", "listOffsetRequestVersion"}  # Versions of requests between brokers.
    apart = {*of_requests, "didMetadataChange", "registerControllerRecordVersion"}
    assert {method for said in facts(RECORDED[-1]).values() for method in said} <= {*NAMES, *apart}


@pytest.mark.parametrize(
    ("text", "name", "release", "level"),
    [
        ("3.9.1", "3.9-IV0", "3.9.1", 21),
        ("4.3.1", "4.3-IV0", "4.3.1", 30),
        ("4.1.2", "4.1-IV1", "4.1.2", 27),
        ("3.7-IV2", "3.7-IV2", "4.4.0", 17),
        ("3.7-IV2@3.9.1", "3.7-IV2", "3.9.1", 17),
        ("3.0-IV1", "3.0-IV1", "3.9.1", 1),
        ("4.2-IV1@4.1.2", "4.2-IV1", "4.1.2", 29),
        ("4.4-IV0@4.3.1", "4.4-IV0", "4.3.1", 31),
        ("4.4.0", "4.4-IV2", "4.4.0", 33),
        ("4.5-IV0", "4.5-IV0", "4.4.0", 34),
    ],
)
def test_forms(text: str, name: str, release: str, level: int) -> None:
    version = MetadataVersion.parse(text)
    assert (version, str(version), version.feature_level) == (MetadataVersion(name, release), name, level)
    assert MetadataVersion.of_level(level, release) == version
    assert MetadataVersion.of_level(level).name == name


@pytest.mark.parametrize("text", ["", "3.9", "3.9.2", "2.8-IV1", "3.3-IV2@4.3.1", "4.0-IV2@3.9.1", "3.9-IV0@3.8.0"])
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(LevelError):
        MetadataVersion.parse(text)


@pytest.mark.parametrize("level", [0, -1, 35, 2**15 - 1])
def test_levels_that_there_are_not(level: int) -> None:
    with pytest.raises(LevelError, match=f"feature level {level}"):
        MetadataVersion.of_level(level)


def test_elr_came_a_level_earlier_in_3_9() -> None:
    versions = [MetadataVersion.parse(f"4.0-IV0@{release}") for release in ("3.9.1", "4.3.1")]
    assert [version.partition_record_version for version in versions] == [2, 1]


@pytest.mark.parametrize("release", RECORDED)
def test_texts_mean_what_kafka_makes_of_them(release: str) -> None:
    """`"4.0"`, `"4.0.0"`, `"3.9.1"`, `"4.3"` and 850 others, without and with unstable levels."""
    with gzip.open(DATA / "settings" / f"version_texts_{release}.json.gz", "rt", encoding="utf-8") as file:
        facts: dict[str, list[int | None]] = json.load(file)
    assert len(facts) > 800
    for text, levels in facts.items():
        for is_unstable_allowed, level in zip((False, True), levels, strict=True):
            try:
                found = MetadataVersion.of_text(text, release, is_unstable_allowed=is_unstable_allowed)
            except LevelError:
                assert level is None, text
            else:
                assert found.feature_level == level, text


def test_a_text_that_is_refused_says_what_to_give() -> None:
    with pytest.raises(
        LevelError, match=r"Kafka 4.3.1 has no such metadata.version; give a level from 3.3-IV3 to 4.3-IV0"
    ):
        MetadataVersion.of_text("5.0", "4.3.1")
    with pytest.raises(
        LevelError, match=r"4.4-IV0 is not yet stable in Kafka 4.3.1; set unstable.feature.versions.enable"
    ):
        MetadataVersion.of_text("4.4-IV0", "4.3.1")
