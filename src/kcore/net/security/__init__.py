"""TLS and SASL, for clients and servers.

- `client_security.py`, `listener_security.py`: the settings of a client and of a listener.
- `tls.py`, `handshakes.py`: TLS contexts that follow their files; a server's TLS handshakes.
- `sasl_client.py`, `sasl_server.py`: the requests of SASL on both sides. `sasl_mechanisms.py`: a server's checks of
  passwords and proofs, for PLAIN, SCRAM and delegation tokens.
- `jaas.py`: sasl.jaas.config. `principal.py`: the principal of a certificate.
- `required_security.py`: the security protocol that an unknown listener requires.
"""
