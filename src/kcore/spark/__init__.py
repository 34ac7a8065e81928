"""Spark: the runners, which give the same cells in this process or on a cluster, and Kafka's files as DataFrames."""

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
