"""Rules and settings that brokers and controllers share: pure functions, without a log, a clock or a socket.

A node is a broker or a controller. A rule takes values or tables and returns a decision, or raises Kafka's exception.
In reading order:

- Settings: `topic_configs.py`: names, types, defaults and valid values of a topic's settings.
- Security: `acls.py`: ACL entries, filters and their index; `acl_hosts.py`: hosts that are blocks of addresses;
  `authorization.py`: whether ACLs allow an operation; `tokens.py`: delegation tokens. `kcore.scram` has the rules of
  SCRAM, and `net/security/sasl_mechanisms.py` checks logins.
- Quotas: `quotas.py`: valid entities and values; `rate_quotas.py`: which quota applies to a client, and quotas on a
  rate.
- Answers: `error_responses.py`: the response to a request that fails as a whole, and Kafka's default messages;
  `parsed.py`: requests that Kafka's parsers refuse.
- `kraft/`: a node of a cluster whose state is the metadata log. `zk/`: a node of a cluster whose state is in ZooKeeper.

The modules beside `kraft/` and `zk/` import neither of them, and these do not import each other. The rule for topic
names is in `metadata/topic_names.py`.
"""
