"""The jars of a Kafka release, whether or not kcore has a lock file of it: Apache Ivy resolves them and their SHA-256 are written.

A release that has a lock file is fetched as kcore fetches it. The first run for another release resolves
`org.apache.kafka:kafka_2.13` and `kafka-tools` with their dependencies; later runs check what the lock file says.
"""
