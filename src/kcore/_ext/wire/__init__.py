"""Kernels for bytes on the wire: frames, ZooKeeper's Jute, and Kafka's messages as Python objects.

`kcore.wire.plan` describes one version of a message; `wire_program` compiles the plan into C structs, which the reader
and the writers run. No byte is trusted, and an error names the field at no cost to a message without errors.

- `framing`: cuts a stream of bytes into frames.
- `object_codec`: finds the program of a message and version, and runs it.
- `wire_program`: compiles a plan; `wire_memory.pxd` allocates instances, lists and packed int32s.
- `wire_reader`: bytes to objects; `recent_ints.pxd` and `wire_values.pxd` make ints, Uuids and views.
- `wire_writer`: objects to bytes; `wire_buffer.pxd` and `wire_slots.pxd` are its buffer and its view of an instance.
- `wire_parts`: objects to bytes, part by part.
- `wire_lists`: arrays of int32s that stay packed until a user reads them.
- `jute`: the bodies of ZooKeeper's `multi` and `multiRead`.
- `sink.pxd`: the state of the column writers.
"""
