"""A KRaft controller as a process: a node of a quorum, the controller on it, and what clients ask of both."""
