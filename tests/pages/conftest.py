"""The folder in which pages and examples run: recorded Kafka files under the names that the pages use."""

import shutil
from pathlib import Path

import pytest

from pages.markdown import ROOT
from storage.building import batch, batches, write_log

SAMPLES = ROOT / "tests/data/samples"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Real files of Kafka 4.3.1 and 3.9.1, and two replicas that differ at offset 5."""
    shutil.copytree(SAMPLES / "kraft43/broker2-a", tmp_path / "kafka-logs")
    shutil.copytree(SAMPLES / "kraft43/controller-3003/__cluster_metadata-0", tmp_path / "__cluster_metadata-0")
    shutil.copy(SAMPLES / "zk39-scenario/3-broker3-back.zk.txt", tmp_path / "zookeeper-dump.txt")
    made = batches(8)
    other = [*made[:5], batch(5, [b"another record"], epoch=1), *batches(2, first=6, epoch=1)]
    write_log(tmp_path / "a/orders-0", {0: b"".join(made)}, [(0, 0)])
    write_log(tmp_path / "b/orders-0", {0: b"".join(other)}, [(0, 0), (1, 5)])
    return tmp_path
