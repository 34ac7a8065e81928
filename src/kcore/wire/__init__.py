"""Bytes of Kafka's protocol to objects, columns, JSON and Arrow, and back.

A class of `kcore.schema` and a version become a plan; objects, columns and JSON all read that plan. Kernels of
`kcore._ext` do the work: they check every length before they use it, so no bytes can cause more than a DecodeError.
Modules here check arguments once, call a kernel and wrap the result; they have no state but caches.

- `plan`: from a class and a version to steps.
- `codec`: messages as objects. `jsonform`: messages as Kafka's JSON.
- `columns`: messages as columns: one array a field, for millions of partitions.
- `column_codec`: bytes to columns and back; `layout` compiles the program, `gather` checks columns to write,
  `grouping` converts the shapes before and after KIP-380.
- `fanout`, `frame_places`: one body for many brokers; places of fields in a frame.
- `record_batch`: headers of record batches, and a segment's index entries.
- `records`, `record_building`: records out of batches, and batches of records.
- `encoded_records`, `metadata_frames`: values of metadata records, in bulk and one by one.
- `arrow`, `record_arrow`: columns and records as Apache Arrow.
- `buffers`, `same`: buffers that other threads may change; comparison of columns.
"""
