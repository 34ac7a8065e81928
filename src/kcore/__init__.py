"""The Kafka controller core: codec, tables, decisions, and the tool that measures them."""
