"""Handles elections that are not caused by a change of brokers, and the ISR changes of leaders.

- `requested_elections`: elections that a client requests, and elections of preferred leaders.
- `isr`: AlterPartition and older notifications of ISR changes.
- `unclean`: reads which topics allow unclean elections.
- `directories`: elections for partitions with a replica on a failed log directory.
"""
