"""Requests of administrators: configurations, quotas, ACLs, credentials, tokens, features.

Each handler checks the principal, then the request, and returns records and a response; it changes nothing.

- `configs.py`: AlterConfigs, IncrementalAlterConfigs, DescribeConfigs; `config_changes.py`: the records of one
  resource's changes.
- `features.py`: UpdateFeatures; `quotas.py`: AlterClientQuotas; `cluster.py`: DescribeCluster.
- `acls.py`: requests about ACLs; `scram.py`: about SCRAM credentials; `tokens.py`: about delegation tokens.
"""
