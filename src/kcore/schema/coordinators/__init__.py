"""Keys and values of the coordinators' own topics; `kcore.storage.tools.coordinator_records` has their numbers.

The index does not name these classes: one class may stand for several similar ones of Kafka. Kafka's decoders verify
their fields (tests/oracle), while facts recorded from its schema files verify those of all messages.
"""
