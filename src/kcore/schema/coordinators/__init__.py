"""Keys and values of the coordinators' own topics; `kcore.storage.tools.coordinator_records` has their numbers.

The index does not name these classes, because one class may stand for several similar classes of Kafka. Kafka's own
decoders verify the fields of these classes (tests/oracle); Kafka's schema files verify all other messages.

- `groups`, `share_groups`, `streams_groups`: records of the group coordinator in `__consumer_offsets`
- `transactions`: records of the transaction coordinator in `__transaction_state`
"""
