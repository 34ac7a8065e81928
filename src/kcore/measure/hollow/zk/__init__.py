"""Hollow brokers of a cluster in ZooKeeper mode, and the znodes that such a cluster begins with."""
