"""Brokers of the cluster: registration, heartbeats, fencing, controlled shutdown."""
