"""A cluster seen from outside, by a client that takes no part in it: what `kcore top` shows.

Three sources, each of which may be missing: DescribeQuorum (`server/quorum_node/describe.py`), the metadata log, which
`log_follower.py` reads as a consumer into an image, and a page of metrics (`scraped.py`). `watcher.py` polls them,
and `frame.py` turns their answers into data to display: one frame per interval.
"""
