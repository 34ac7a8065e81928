"""Reads server.properties for controllers and brokers.

- `definitions.py`: types and bounds of Kafka's settings. `values.py`: reads single values and the quorum's settings.
- `honoured.py`: the settings that kcore honours; a log line names others.
- `nodes.py`: the settings that KRaft controllers and brokers share.
- `listeners.py`, `limits.py`, `security.py`: a listener's addresses, the limits of its connections, its TLS and SASL.
"""
