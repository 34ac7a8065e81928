"""Kernels between the bytes of messages and columns, by a program of `kcore.wire.layout`.

`measure` checks every length and counts rows; then one allocation holds all columns and `fill` writes them. Records
with the same lengths, counts and nulls have one layout and move as a block; others move field by field or one by one.

- `column_tables`, `program.pxd`: the program, and loads and stores of any byte order.
- `columns_read`: bytes to columns; `layout_read`, `runs_read` and `mixed_read` are its fast ways, `walk.pxd` its state.
- `columns_size`, `columns_write`: columns to bytes; `layout_write`, `runs_write` and `mixed_write` are the fast ways.
- `steps.pxd`, `fused.pxd`: a layout as steps, and steps that move several fields at once.
- `mixed.pxd`: records that differ only in the lengths of a few vectors.
- `vectors`: columns of strings.
- `record_framing`: record values as uncompressed batches.
"""
