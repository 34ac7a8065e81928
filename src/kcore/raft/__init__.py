"""A node of a KRaft quorum, with no clock, no socket and no file (KIP-595, KIP-630, KIP-853, KIP-996)."""
