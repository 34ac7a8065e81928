"""A node of a cluster whose state is the metadata log: its settings, its authorizer, descriptions, snapshots.

- `node_config.py`: the settings of every node.
- `effective_configs.py`: the effective settings of topics. `config_kinds.py`, `group_configs.py`: valid settings of
  client metrics and groups. `config_descriptions.py`: DescribeConfigs.
- `image_indexes.py`: indexes of the image's ACLs and tokens, and the authorizer.
- `snapshot_slices.py`: when a snapshot is due, and its batches in slices.
"""
