"""Keys and values of the coordinators' own topics; `kcore.storage.tools.coordinator_records` has their numbers.

The index does not name them: a class here may stand for several of Kafka's that are alike, and it is Kafka's decoders
that vouch for the fields (tests/oracle), where facts recorded from its schema files do so for all messages.
"""
