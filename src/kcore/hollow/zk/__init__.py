"""Hollow brokers of a cluster in ZooKeeper mode, the controllers to put under their load, and storms of them."""
