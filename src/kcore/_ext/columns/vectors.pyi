"""Columns of strings as offsets and bytes."""

from kcore.types import Int32s, Int64s, UInt8s

def starts_group(offsets: Int32s, values: UInt8s, starts: UInt8s) -> None:
    """Set starts[k] to whether string k differs from string k - 1; the first always does."""

def repeat(offsets: Int32s, values: UInt8s, row_offsets: Int32s, repeated_offsets: Int32s, repeated: UInt8s) -> None:
    """String k once for each row in row_offsets[k:k + 2]; the arrays to fill are just large enough."""

def pack(source: memoryview, spans__mx: Int64s, places__m: Int64s, packed: UInt8s) -> None:
    """The bytes of span m of `source` to `places__m[m]`; spans lie in `source`, and where they go in `packed`."""
