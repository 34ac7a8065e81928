"""Storms on a KRaft quorum: the state that scenarios share, how one is measured, and the scenarios."""
