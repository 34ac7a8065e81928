"""The ZooKeeper-mode controller as a process."""
