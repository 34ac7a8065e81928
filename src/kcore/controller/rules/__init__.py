"""Rules that both modes of the controller share: pure functions, without a store, a log, a clock or a socket.

A rule takes values or tables and returns a decision, or raises Kafka's exception. In reading order:

- Topics: `topic_configs.py`: names, types, defaults and valid values of a topic's settings; `new_replicas.py`: the
  replicas of new partitions; `replica_assignments.py`: the replicas before, during and after a reassignment.
- Security: `acls.py`: ACL entries, filters and their index; `acl_hosts.py`: hosts that are blocks of addresses;
  `authorization.py`: whether ACLs allow an operation; `tokens.py`: delegation tokens. `kcore.scram` has the rules of
  SCRAM, and `net/security/sasl_mechanisms.py` checks logins.
- Quotas: `quotas.py`: valid entities and values; `rate_quotas.py`: which quota applies to a client, and quotas on a
  rate; `mutation_quotas.py`: controller_mutation_rate.
- `features.py`: which feature updates are refused.
- Answers: `error_responses.py`: the response to a request that fails as a whole, and Kafka's default messages;
  `parsed.py`: requests that Kafka's parsers refuse.

The rule for topic names is in `metadata/topic_names.py`, because brokers apply it too.
"""
