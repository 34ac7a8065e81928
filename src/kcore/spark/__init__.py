"""Runs work on Spark, and reads Kafka's files as DataFrames.

- `session`, `java`, `preflight`, `calibration`, `archive`: start Spark, find its Java, check its executors, time a cell
  on each, pack kcore for them.
- `pieces`, `failures`: run work as jobs of one task; reduce Spark's errors to one sentence.
- `local_runner`, `spark_runner`, `finished_cells`, `progress`, `place`: run a benchmark's cells in this process or on a
  cluster.
- `simulation`, `divergence`, `whatif`: simulate quorums, compare log directories, lose pairs of brokers, on a cluster.
- `sources`, `file_source`, `uri_files`, `conditions`, `log_source`, `log_stream`, `stream_limit`, `metadata_source`:
  the formats kcore.log and kcore.metadata.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from kcore.extras import needs

if TYPE_CHECKING:
    from kcore.spark.divergence import diverge_log_dirs as diverge_log_dirs
    from kcore.spark.sources import register as register

_LATER = {"register": "sources", "diverge_log_dirs": "divergence"}


def __getattr__(name: str) -> Any:
    """Imports PySpark when a caller first uses one of these names."""
    if name in _LATER:
        with needs("spark"):
            return getattr(import_module(f"kcore.spark.{_LATER[name]}"), name)
    raise AttributeError(f"module 'kcore.spark' has no attribute {name!r}")
