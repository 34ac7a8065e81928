"""Handles events and requests of brokers.

- `broker_changes`: brokers start, fail, bounce or shut down.
- `log_dirs`: log directories of live brokers fail.
- `producer_ids`: allocates blocks of producer ids to brokers.
"""
