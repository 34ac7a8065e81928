"""A broker as a process."""
