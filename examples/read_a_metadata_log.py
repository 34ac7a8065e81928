"""Read the metadata log of a KRaft controller: the cluster's brokers and the partitions that have no leader.

Give the path of a `__cluster_metadata-0` folder, of a segment or of a snapshot; without one, a recorded log is read.
"""

import sys
from pathlib import Path

import numpy as np

import kcore

RECORDED = Path(__file__).parents[1] / "tests/data/samples/kraft43/controller-3003/__cluster_metadata-0"

image = kcore.load_metadata(sys.argv[1] if len(sys.argv) > 1 else RECORDED)
print("metadata.version", image.features["metadata.version"], "at offset", image.end_offset)
print("brokers", sorted(image.brokers.ids.tolist()), "topics", image.topics.names)
for row in np.flatnonzero(image.table.leader__p < 0)[:3]:
    state = image.table.state(int(row))
    print(f"{state.topic}-{state.partition} has no leader; its replicas are on {state.replicas}")

# Prints:
# metadata.version 30 at offset 384
# brokers [1, 2] topics ['orders', 'jb', '__consumer_offsets']
# orders-0 has no leader; its replicas are on (1, 2)
# orders-1 has no leader; its replicas are on (2, 1)
# orders-2 has no leader; its replicas are on (1, 2)
