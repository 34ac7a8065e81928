"""Decode a LeaderAndIsrRequest that a Kafka 3.9.1 controller sent: as an object, and as columns."""

import gzip
import json
from pathlib import Path

import kcore

RECORDED = Path(__file__).parents[1] / "tests/data/samples/zk39-scenario/control-requests.jsonl.gz"

with gzip.open(RECORDED, "rt", encoding="utf-8") as lines:
    recorded = next(case for case in map(json.loads, lines) if case["api"] == "LEADER_AND_ISR")
version = recorded["header"]["requestApiVersion"]
data = kcore.encode(kcore.from_json("LeaderAndIsrRequest", version, recorded["request"]), version)

message = kcore.decode("LeaderAndIsrRequest", version, data)
for topic in message.topic_states:
    for partition in topic.partition_states:
        print(topic.topic_name, partition.partition_index, "leader", partition.leader, "isr", partition.isr)

columns = kcore.decode_columns("LeaderAndIsrRequest", version, data)
print("leaders as a column:", columns.topic_states.partition_states.leader)
print("as Arrow:", columns.topic_states.partition_states.to_arrow().schema.names[:4])

# Prints:
# t1 2 leader 3 isr [3, 1, 2]
# t1 1 leader 2 isr [2, 3, 1]
# t1 0 leader 1 isr [1, 2, 3]
# leaders as a column: [3 2 1]
# as Arrow: ['partition_index', 'controller_epoch', 'leader', 'leader_epoch']
