"""Spark: the runners, which give the same cells in this process or on a cluster, and Kafka's files as DataFrames."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kcore.spark.sources import register as register


def __getattr__(name: str) -> Any:
    """`register` loads PySpark when it is named."""
    if name == "register":
        from kcore.spark.sources import register

        return register
    raise AttributeError(f"module 'kcore.spark' has no attribute {name!r}")
