"""Reads server.properties for controllers and brokers: values, Kafka's names, TLS and SASL of listeners."""
