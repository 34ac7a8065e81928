"""Slow twin of `kcore._ext.records.crc32c`: the CRC of RFC 3720, bit by bit."""

POLYNOMIAL = 0x82F63B78  # Castagnoli's, its bits reversed.


def crc32c(data: bytes, value: int = 0) -> int:
    """CRC-32C of the bytes, continued from `value`."""
    register = value ^ 0xFFFFFFFF
    for byte in data:
        register ^= byte
        for _ in range(8):
            register = (register >> 1) ^ (POLYNOMIAL if register & 1 else 0)
    return register ^ 0xFFFFFFFF
