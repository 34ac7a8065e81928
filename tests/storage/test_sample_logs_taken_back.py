"""Logs of real controllers: each batch can be taken back, and what is written of an image replays to it."""

from pathlib import Path

import numpy as np
import pytest

from kcore.metadata.image.image import ClusterImage
from kcore.metadata.image.image_writer import records_of
from kcore.metadata.image.replay import replay
from kcore.metadata.metadata_version import MetadataVersion
from kcore.storage.log.partition_folder import segment_files
from kcore.wire.record_batch import scan_batches
from kcore.wire.records import decode_records
from metadata.stories import log_of
from reference.replay import replay as one_by_one
from storage.samples import KRAFT39, METADATA_43

SEGMENT_39 = KRAFT39 / "00000000000000000000.log"


def data_of(path: Path) -> bytes:
    files = segment_files(path) if path.is_dir() else [path]
    return b"".join(each.read_bytes() for each in files)


@pytest.mark.parametrize(("path", "release"), [(METADATA_43, "4.3.1"), (SEGMENT_39, "3.9.1")], ids=["4.3.1", "3.9.1"])
def test_every_batch_is_taken_back(path: Path, release: str) -> None:
    data = data_of(path)
    scanned = scan_batches(data)
    image, states = ClusterImage(), []
    image.keep_journal()
    image.keep_deltas(0)
    ends = np.cumsum(scanned.size).tolist()
    for begin, end in zip([0, *ends], ends, strict=False):
        states.append(image.copy())
        replay(image, decode_records(data[begin:end]))
    whole, alone = image.copy(), ClusterImage()
    one_by_one(alone, decode_records(data))
    assert image == alone and len(states) > 40
    check_written(whole, release)
    firsts = scanned.base_offset.tolist()
    for first, state in list(zip(firsts, states, strict=True))[::-1]:
        image.revert_to(first)
        assert image == state
        assert (image.end_offset, image.epoch) == (state.end_offset, state.epoch)
    replay(image, decode_records(data))
    assert image == whole


def check_written(image: ClusterImage, release: str) -> None:
    level = MetadataVersion.of_level(image.features["metadata.version"], release)
    values = [value for piece in records_of(image, level) for value in piece]
    again = ClusterImage()
    replay(again, log_of(values))
    assert again == image
    assert [value for piece in records_of(again, level) for value in piece] == values
