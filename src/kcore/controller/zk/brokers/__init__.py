"""Brokers come and go, shut down, lose disks, and get producer ids."""
