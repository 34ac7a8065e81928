# No names for Python: `kcore._ext.wire.object_codec` calls it from C.
