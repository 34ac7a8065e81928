"""Watches a cluster for `kcore top`, as a client that is no member of the cluster.

There are three sources, each of which may be missing: DescribeQuorum (`server/quorum_node/describe.py`), the metadata
log, which `metadata_log_reader.py` reads into an image, and a page of metrics (`scraped.py`). `watcher.py` polls the
sources; `frame.py` turns their answers into data to display, one frame per interval.
"""
