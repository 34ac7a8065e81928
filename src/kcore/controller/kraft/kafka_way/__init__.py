"""What a controller keeps and does beside its own way where departures from Kafka are switched back (departures.py)."""
