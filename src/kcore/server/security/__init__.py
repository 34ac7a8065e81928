"""Rights, quotas of clients and the audit log, for all servers.

- `rights.py`: removes refused items from a request, and adds their errors to the response.
- `request_throttle.py`, `throttled.py`: request quotas, and handlers that obey them.
- `log_credentials.py`: SCRAM users and tokens in the metadata log.
- `byte_quotas.py`: quotas on the bytes of producers and consumers, at brokers.
- `audit.py`, `audited.py`: the audit log, and handlers that write it.

TLS and SASL are in `net/security/`.
"""
