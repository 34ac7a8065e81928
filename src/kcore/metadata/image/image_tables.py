"""The tables of an image by name, each an Arrow stream that is made when it is read."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kcore.metadata.image.image_state import ImageState

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True, eq=False)
class ImageTable:
    """One table of an image. Each read makes the rows anew, from the image's state at that time.

    The columns are those of `kcore.metadata.image.image_arrow.SCHEMAS`. No table has SCRAM credentials, delegation
    tokens or passwords.
    """

    name: str
    image: ImageState

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name} of {self.image!r}>"

    def to_arrow(self) -> "pa.Table":
        """The rows as a table of Arrow. MissingExtraError without pyarrow."""
        from kcore.metadata.image.image_arrow import table_of  # pyarrow is loaded on first use.

        return table_of(self.image, self.name)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The stream interface of Arrow's PyCapsules, for pyarrow, Polars, DuckDB and other libraries."""
        return self.to_arrow().__arrow_c_stream__(requested_schema)
