# No names for Python: `kcore._ext.wire` calls it from C.
