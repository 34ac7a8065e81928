"""Kernels for bytes on the wire: frames, ZooKeeper's Jute, and Kafka's messages as Python objects.

`kcore.wire.plan` describes one version of a message; `wire_program` compiles the plan into C structs, which the reader
and the writers follow. The reader checks every length. An error names its field; valid messages do not pay for that.

- `framing`: splits a stream of bytes into frames.
- `object_codec`: finds the program of a message and version, and runs it.
- `wire_program`: compiles a plan; `wire_memory.pxd` allocates instances, lists and packed int32s.
- `wire_reader`: reads bytes to objects; `recent_ints.pxd` and `wire_values.pxd` make ints, Uuids and views.
- `wire_writer`: writes objects to bytes; `wire_buffer.pxd` is its buffer, `wire_slots.pxd` reads instances and lists.
- `wire_parts`: writes a large object to bytes in parts.
- `wire_lists`: arrays of int32s that stay packed until a user reads them.
- `jute`: writes and reads the bodies of ZooKeeper's `multi` and `multiRead`.
- `sink.pxd`: the state of the writers in `kcore._ext.columns`.
"""
