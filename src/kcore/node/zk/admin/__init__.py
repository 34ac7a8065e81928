"""Handles the requests of administrators that every node of ZooKeeper mode answers.

- `configs`: settings of topics and of the receiving node. `broker_configs`: the settings of BROKER resources.
- `quotas`, `acls`, `scram`, `tokens`: client quotas, ACLs, SCRAM credentials and delegation tokens.
"""
