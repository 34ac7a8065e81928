# The values of kcore.constants that kernels need; tests/tidy/test_kernels.py compares them.

cdef enum:
    NO_LEADER = -1
    LEADER_DURING_DELETE = -2
    NO_EPOCH = -1
    UNDEFINED_EPOCH = -1
    UNDEFINED_EPOCH_OFFSET = -1
    UNKNOWN_BROKER_EPOCH = -1
    RECOVERED = 0
    RECOVERING = 1
    MAX_BROKERS = 32767
    MAX_REPLICAS = 32
    NO_BROKER_ROW = -1
