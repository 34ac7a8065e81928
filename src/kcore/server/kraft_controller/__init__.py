"""A KRaft controller as a process: the node of a quorum, the controller on it, and the server for both."""
