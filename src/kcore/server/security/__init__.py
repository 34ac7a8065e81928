"""Rights, quotas of clients and the audit log, for all servers.

- `rights.py`: removes refused items from a request, and adds their errors to the response.
- `request_throttle.py`: request quotas.
- `log_credentials.py`: SCRAM users and tokens in the metadata log.
- `byte_quotas.py`: quotas on the bytes of producers and consumers, at brokers.
- `audit.py`: the audit log.

TLS and SASL are in `net/security/`.
"""
