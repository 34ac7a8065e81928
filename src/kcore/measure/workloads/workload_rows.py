"""The columns of a result, one row per operation and cell; the same in Spark, Parquet and Arrow."""

from kcore.extras import needs

with needs("arrow"):
    import pyarrow as pa

VARIANT = {
    **{"replication_factor": pa.int32(), "topics": pa.int64(), "racks": pa.int32()},
    **{"isr": pa.string(), "brokers_gone": pa.float64()},
    **{"warm_up_s": pa.float64(), "duration_s": pa.float64()},
}
# The code of kcore that measured the row: see own_code.py. The commit is the driver's, in rows of the same hash.
CODE = {"kcore_sha256": pa.string(), "kcore_commit": pa.string()}
ROW_SCHEMA = pa.schema(
    [
        ("workload", pa.string()),
        ("operation", pa.string()),  # "group: action", with Cell.variant in the group; empty if the cell failed
        ("partitions", pa.int64()),  # of the cluster
        ("brokers", pa.int32()),
        ("seed", pa.int64()),
        ("repetition", pa.int32()),
        *VARIANT.items(),  # fields of Cell
        ("handled_partitions", pa.int64()),  # the divisor of times
        ("samples_ns", pa.list_(pa.int64())),
        ("min_ns", pa.int64()),
        ("median_ns", pa.int64()),
        ("p99_ns", pa.int64()),
        ("memcpy_ns", pa.int64()),  # time to copy moved_bytes in the same process, best of 5
        ("moved_bytes", pa.int64()),
        ("wire_bytes", pa.int64()),
        ("memory_bytes", pa.int64()),
        ("peak_bytes", pa.int64()),  # growth of resident memory in one run
        ("process_peak_bytes", pa.int64()),
        ("digest", pa.string()),  # hash of the result, equal in every repetition
        ("error", pa.string()),  # null without an error
        ("started_ms", pa.int64()),  # Unix time
        ("cell_ns", pa.int64()),  # the whole cell, with set-up and warm-up
        ("host", pa.string()),
        ("pid", pa.int64()),
        ("worker", pa.string()),  # the Spark executor's Python daemon, as host:pid; or this process
        ("task", pa.int32()),  # Spark's partition id
        *CODE.items(),
    ]
)

KEY = ("workload", "operation", "partitions", "brokers", "seed")  # Equal in all repetitions of an operation.
