"""Clusters of Kafka 4.4.0: what its tools format, what its brokers are registered at, and its levels by name."""

from pathlib import Path

import pytest

from cli.invoking import kcore
from controller.kraft.contexts import a_context, decision_of
from controller.kraft.runtime import controller_of
from controller.kraft.test_bootstrap_snapshots import written
from kcore.broker.lifecycle.registration_fields import features_of
from kcore.controller.kraft.kraft_context import RequestInfo
from kcore.controller.kraft.outputs import ReadSnapshotSlice
from kcore.measure.watch.frame import partitions_of
from kcore.metadata.image.image import ClusterImage
from kcore.protocol_errors import Errors
from kcore.raft.log.raft_log import SnapshotPiece
from kcore.raft.state_machine import SnapshotReader
from kcore.releases.known import RELEASES
from kcore.replication.raft_log import OffsetAndEpoch
from kcore.schema.metadata_records_brokers import RegisterControllerRecord, UnregisterControllerRecord
from kcore.schema.metadata_records_settings import FeatureLevelRecord
from kcore.schema.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from kcore.server.kraft_broker.kraft_broker_request_handlers import apis
from kcore.wire.metadata_frames import encode_metadata_record
from releases.newer import batches, level, topic
from storage.samples import SAMPLES

DEFAULTS = {
    "metadata.version": 33,
    "eligible.leader.replicas.version": 1,
    "group.version": 1,
    "share.version": 2,
    "streams.version": 1,
    "transaction.version": 2,
}


def test_a_controller_writes_what_kafkas_tool_has_formatted() -> None:
    """The log had none of these records, and the controller reported the default of its own release."""
    data = (SAMPLES / "kraft44" / "static" / f"{0:020}-{0:010}.checkpoint").read_bytes()
    controller = controller_of(release="4.4.0", supported_features=RELEASES["4.4.0"].supported_features)
    outputs = controller.on_snapshot(
        SnapshotReader(OffsetAndEpoch(0, 0), lambda at, size: SnapshotPiece(data[at : at + size], len(data)))
    )
    while any(isinstance(each, ReadSnapshotSlice) for each in outputs):
        outputs = controller.on_read_slice()
    levels, line = written(controller)
    assert levels == controller.image.features == DEFAULTS
    assert "7 bootstrap records at metadata.version 4.4-IV2 from the snapshot 0-0" in line
    assert [*controller.image.scram] == [(1, "alice")]


def test_a_broker_of_this_release_may_register_at_its_default_level() -> None:
    """A controller refuses a broker whose features do not have the levels of the cluster."""
    found = {each.name: each for each in features_of(RELEASES["4.4.0"].supported_features)}
    for name, number in DEFAULTS.items():
        assert found[name].min_supported_version <= number <= found[name].max_supported_version
    assert apis("4.4.0")


@pytest.mark.parametrize(("number", "name"), [(31, "4.4-IV0"), (32, "4.4-IV1"), (33, "4.4-IV2"), (34, "4.5-IV0")])
def test_top_shows_levels_by_name(number: int, name: str) -> None:
    image = ClusterImage()
    image.apply(FeatureLevelRecord(name="metadata.version", feature_level=number))
    assert partitions_of(image).metadata_version == name


def test_tools_know_the_new_record(tmp_path: Path) -> None:
    record = encode_metadata_record(UnregisterControllerRecord(controller_id=7), 0)
    file = tmp_path / f"{0:020}.log"
    registered = encode_metadata_record(RegisterControllerRecord(controller_id=7), 0)
    file.write_bytes(batches(level(33), registered, record, topic("a")))
    image, dump = kcore("image", file), kcore("dump", "--metadata", file)
    assert (image.exit_code, dump.exit_code) == (0, 0)
    assert image.output.startswith("1 topics, ") and "newer release" not in image.output + dump.output
    assert '{"type":"UNREGISTER_CONTROLLER_RECORD","version":0,"data":{"controllerId":7}}' in dump.output
    assert "KIP-1312" in kcore("messages", "UnregisterControllerRecord").output
    encoded = kcore("encode", "UnregisterControllerRecord", 0, '{"controllerId":7}').output.strip()
    assert kcore("decode", "UnregisterControllerRecord", 0, encoded).output.strip() == '{"controllerId":7}'


@pytest.mark.parametrize(("release", "error"), [("4.4.0", Errors.NONE), ("4.3.1", Errors.INVALID_UPDATE_VERSION)])
def test_kafka_features_upgrades_to_4_4(release: str, error: Errors) -> None:
    """`kafka-features upgrade --release-version 4.4-IV2` sends the default level of each feature."""
    context = a_context(30, release=release, supported_features=RELEASES[release].supported_features)
    for name in DEFAULTS:
        if name != "metadata.version":
            context.image.features[name] = 1
    rows = [FeatureUpdateKey(feature=name, max_version_level=to, upgrade_type=1) for name, to in DEFAULTS.items()]
    decision = decision_of(context, UpdateFeaturesRequest(feature_updates=rows), RequestInfo(2, 0))
    assert decision.response.error_code == error, decision.response.error_message
    records = [each.record for each in decision.records if isinstance(each.record, FeatureLevelRecord)]
    assert {each.name: each.feature_level for each in records} == (DEFAULTS if error is Errors.NONE else {})
