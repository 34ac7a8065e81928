"""A machine with its sockets: a process."""
