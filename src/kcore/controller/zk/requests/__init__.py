"""Control requests for brokers, built from the table, in each broker's version."""
