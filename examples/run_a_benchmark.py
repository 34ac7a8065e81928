"""Run a small benchmark in this process; the result is an Arrow table, a row an operation a cell."""

import kcore

plan = {"workload": [{"name": "election", "partitions": [1_000], "brokers": [10], "repeat": 1, "seed": 1}]}
rows = kcore.bench.run(plan, spark=None)
for row in rows.select(["operation", "handled_partitions"]).to_pylist()[:2]:
    print(row)
print(rows.num_rows, "rows; times are in", [name for name in rows.column_names if name.endswith("_ns")])

# Prints:
# {'operation': 'one broker: fails', 'handled_partitions': 300}
# {'operation': 'one broker: fails, mixed states', 'handled_partitions': 300}
# 7 rows; times are in ['samples_ns', 'min_ns', 'median_ns', 'p99_ns', 'memcpy_ns', 'cell_ns']
