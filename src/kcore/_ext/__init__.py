"""The compiled kernels: they take columns or bytes and return columns, bytes or objects (README.md has the rules).

Bytes become columns, columns become decisions, decisions become records and bytes again; the wrappers in `kcore.wire`,
`kcore.metadata`, `kcore.replication` and `kcore.zookeeper` check their arguments once and call a kernel. Invariants: a
kernel imports only `kcore.constants`, checks every length that comes from bytes, trusts what its wrapper checked, and
has a slow twin in `tests/reference`.

- `wire`: frames, Jute, and messages as objects.
- `columns`: messages as columns.
- `tables`: partition rows, their indexes, and the records and znodes of partitions.
- `elections`: elections, KRaft partition changes and replica placement.
- `raft`: log divergence.
- `records` (Rust): record batches: CRC-32C, headers, records, validation.
- `answer_loop`, `hollow` (Rust): loops with sockets, which belong to the edge and are not kernels.
"""
