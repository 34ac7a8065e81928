"""server.properties, as controllers and brokers read it: values, names that Kafka knows, TLS and SASL of listeners."""
