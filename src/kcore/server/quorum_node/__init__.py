"""A node of a KRaft quorum as a process, and what it is asked."""
