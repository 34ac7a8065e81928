"""Columns of strings as offsets and bytes."""

from kcore.types import Int32s, Int64s, UInt8s

def starts_group(offsets: Int32s, values: UInt8s, starts: UInt8s) -> None:
    """Set starts[k] to 1 if string k differs from string k - 1, otherwise to 0; starts[0] is 1."""

def repeat(offsets: Int32s, values: UInt8s, row_offsets: Int32s, repeated_offsets: Int32s, repeated: UInt8s) -> None:
    """Write string k for each row from row_offsets[k] to row_offsets[k + 1]; the output arrays have the exact size."""

def pack(source: memoryview, spans__mx: Int64s, places__m: Int64s, packed: UInt8s) -> None:
    """Copy span m of `source` to `places__m[m]`. The spans must lie in `source`, their copies in `packed`."""
