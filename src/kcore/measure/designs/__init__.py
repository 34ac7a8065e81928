"""The article's designs v1, v2, v3 and its external view on a real ZooKeeper: the cost when a broker is lost."""
