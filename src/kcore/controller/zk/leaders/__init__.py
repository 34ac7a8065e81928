"""Who leads, and who is in sync."""
