"""The names of an image's tables, and what every table is for its readers."""

from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    import pyarrow as pa

PARTITIONS: Final = "partitions"
TABLES: Final = (PARTITIONS, "topics", "brokers", "directories", "configs", "acls", "quotas", "features")
LOG_TABLE: Final = "log"  # Only an image that is loaded from files has it: the records as events.


class ArrowStream(Protocol):
    """A table that pyarrow, Polars, DuckDB and other libraries read."""

    def to_arrow(self) -> "pa.Table": ...

    def __arrow_c_stream__(self, requested_schema: object = None) -> object: ...
