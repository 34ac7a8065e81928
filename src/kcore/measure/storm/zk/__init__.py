"""Storms on a controller in ZooKeeper mode, over a real ZooKeeper."""
