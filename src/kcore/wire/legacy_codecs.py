"""Decompresses the wrappers of message sets of magic 0 and 1: gzip, snappy and lz4, in plain Python.

Each function accepts what Kafka's stream of the codec accepts (GZIPInputStream, SnappyInputStream,
Lz4BlockInputStream), and decompresses at most `most` bytes. A ValueError says in a few words what is wrong.
The kernel decompresses record batches of magic 2.
"""

import zlib
from typing import Final

TOO_LARGE: Final = "decompressed records larger than max_bytes"
_GZIP_MAGIC: Final = b"\x1f\x8b\x08"
_GZIP: Final = 31  # zlib's number for gzip's header and the largest window.
_AT_ONCE: Final = 1 << 14  # zlib copies the bytes after a member: with small steps, many members take linear time.
_XERIAL_MAGIC: Final = b"\x82SNAPPY\0"
_XERIAL_HEADER_BYTES: Final = 16  # The magic, and two int32: a version, and the oldest version that can read it.
_LEAST_XERIAL_VERSION: Final = 1
_SNAPPY_MOST: Final = 22  # The most decompressed bytes of one compressed byte: a copy element of 3 bytes makes 64.
_SIZE_BITS: Final = 32  # The varint before a snappy block has at most so many.
_LZ4_MAGIC: Final = bytes.fromhex("04224d18")
_RESERVED, _CONTENT_SIZE, _BLOCK_CHECKSUM, _INDEPENDENT = 0x03, 0x08, 0x10, 0x20
_LZ4_VERSION: Final = 1
_STORED: Final = 1 << 31  # In a block's length: the block is not compressed.
_LEAST_MATCH: Final = 4
_PRIMES: Final = (2654435761, 2246822519, 3266489917, 668265263, 374761393)
_UINT32: Final = 0xFFFFFFFF


def gunzip(data: bytes, most: int) -> bytes:
    """The contents of all members of a gzip stream. Bytes behind a member that begin no other one are ignored."""
    made, at = bytearray(), 0
    while True:
        member = zlib.decompressobj(_GZIP)
        while not member.eof:
            step = data[at : at + _AT_ONCE]
            if not step:
                raise ValueError("a gzip stream that ends early")
            try:
                made += member.decompress(step, most - len(made) + 1)
            except zlib.error as error:
                raise ValueError(f"not a gzip stream: {error}") from None
            if len(made) > most:
                raise ValueError(TOO_LARGE)
            at += len(step) - len(member.unused_data)
        if data[at : at + len(_GZIP_MAGIC)] != _GZIP_MAGIC:
            return bytes(made)


def unsnap(data: bytes, most: int) -> bytes:
    """The contents of a snappy stream: blocks in xerial's framing, or one raw block."""
    if len(data) < _XERIAL_HEADER_BYTES or not data.startswith(_XERIAL_MAGIC):
        return bytes(_snappy_block(data, most))
    made, at = bytearray(), _XERIAL_HEADER_BYTES
    while len(data) - at >= 4:
        head, at = data[at : at + 4], at + 4
        if head == _XERIAL_MAGIC[:4]:  # Another stream follows.
            rest = data[at : at + _XERIAL_HEADER_BYTES - 4]
            if len(rest) < _XERIAL_HEADER_BYTES - 4:
                raise ValueError("a snappy stream whose header ends early")
            if rest[:4] != _XERIAL_MAGIC[4:]:
                break
            if int.from_bytes(rest[4:8], signed=True) < _LEAST_XERIAL_VERSION:
                raise ValueError("a snappy stream of an unknown version")
            at += len(rest)
            continue
        size = int.from_bytes(head)
        if size > len(data) - at:
            raise ValueError("a snappy block that ends early")
        made += _snappy_block(data[at : at + size], most - len(made))
        at += size
    return bytes(made)


def _snappy_block(block: bytes, most: int) -> bytearray:
    """One block: its decompressed size as a varint, then literals, and copies of earlier bytes."""
    try:
        size, at = _varint(block)
        if size > len(block) * _SNAPPY_MOST:
            raise ValueError("a snappy block that cannot be that large")
        if size > most:
            raise ValueError(TOO_LARGE)
        made = bytearray()
        while at < len(block):
            tag, at = block[at], at + 1
            if tag & 3 == 0:
                length, at = _literal_length(block, tag, at)
                _check_left(block, at, length)
                made += block[at : at + length]
                at += length
            else:
                length, distance, at = _snappy_copy(block, tag, at)
                _repeat(made, distance, length)
            if len(made) > size:
                break
    except IndexError:
        raise ValueError("a snappy block that ends early") from None
    if len(made) != size:
        raise ValueError("a snappy block of another size than it states")
    return made


def _varint(block: bytes) -> tuple[int, int]:
    """The decompressed size at the start of a snappy block, and the place behind it."""
    value = at = shift = 0
    while shift < _SIZE_BITS:
        value |= (block[at] & 0x7F) << shift
        shift, at = shift + 7, at + 1
        if block[at - 1] < 0x80:
            return value, at
    raise ValueError("a snappy block without a size")


def _literal_length(block: bytes, tag: int, at: int) -> tuple[int, int]:
    """The length of a literal, and where its bytes begin. Lengths above 60 are in the 1 to 4 bytes after the tag."""
    length = tag >> 2
    if length < 60:
        return length + 1, at
    more = length - 59
    _check_left(block, at, more)
    return int.from_bytes(block[at : at + more], "little") + 1, at + more


def _snappy_copy(block: bytes, tag: int, at: int) -> tuple[int, int, int]:
    """The length and the distance of a copy, and the place behind it."""
    if tag & 3 == 1:
        return (tag >> 2 & 7) + 4, (tag >> 5) << 8 | block[at], at + 1
    width = 2 if tag & 3 == 2 else 4
    _check_left(block, at, width)
    return (tag >> 2) + 1, int.from_bytes(block[at : at + width], "little"), at + width


def _check_left(block: bytes, at: int, length: int) -> None:
    if length > len(block) - at:
        raise IndexError


def _repeat(made: bytearray, distance: int, length: int) -> None:
    """Appends `length` bytes that begin `distance` bytes before the end; they may reach into the appended bytes."""
    start = len(made) - distance
    if distance <= 0 or start < 0:
        raise ValueError("a compressed block that copies bytes from before its start")
    if distance >= length:
        made += made[start : start + length]
    else:
        made += (made[start:] * (length // distance + 1))[:length]


def unlz4(data: bytes, most: int, *, check_header: bool) -> bytes:
    """The contents of one LZ4 frame of independent blocks.

    Without `check_header` the checksum of the frame's header is ignored: Kafka's clients wrote a wrong one into
    messages of magic 0 (KAFKA-3160).
    """
    flags, largest, at = _lz4_header(data, check_header)
    made = bytearray()
    while True:
        head = _u32(data, at)
        size, at = head & ~_STORED, at + 4
        if not size:
            return bytes(made)
        if size > largest or size > len(data) - at:
            raise ValueError("an lz4 block that is too large, or that ends early")
        block = data[at : at + size]
        at += size
        made += block if head & _STORED else _lz4_block(block, min(largest, most - len(made)))
        if len(made) > most:
            raise ValueError(TOO_LARGE)
        if flags & _BLOCK_CHECKSUM:
            if _u32(data, at) != xxh32(block):
                raise ValueError("an lz4 block whose checksum does not match")
            at += 4


def _lz4_header(data: bytes, check_header: bool) -> tuple[int, int, int]:
    """The frame's flags, the size of its largest block, and where the first block begins."""
    if len(data) < 7 or not data.startswith(_LZ4_MAGIC):
        raise ValueError("not an lz4 frame")
    flags, sizes = data[4], data[5]
    if flags & _RESERVED or flags >> 6 != _LZ4_VERSION or not flags & _INDEPENDENT:
        raise ValueError("an lz4 frame of another version, or of dependent blocks")
    if sizes & 0x8F or sizes >> 4 < 4:
        raise ValueError("an lz4 frame with an unknown block size")
    end = 14 if flags & _CONTENT_SIZE else 6
    if len(data) <= end:
        raise ValueError("an lz4 frame that ends early")
    if check_header and data[end] != xxh32(data[4:end]) >> 8 & 0xFF:
        raise ValueError("an lz4 frame whose header has a wrong checksum")
    return flags, 1 << (2 * (sizes >> 4) + 8), end + 1


def _u32(data: bytes, at: int) -> int:
    if len(data) - at < 4:
        raise ValueError("an lz4 frame that ends early")
    return int.from_bytes(data[at : at + 4], "little")


def _lz4_block(block: bytes, most: int) -> bytearray:
    """One compressed block: literals, each followed by a copy of earlier bytes, except for the last ones."""
    made, at = bytearray(), 0
    try:
        while True:
            token, at = block[at], at + 1
            length, at = _lz4_length(block, token >> 4, at)
            _check_left(block, at, length)
            made += block[at : at + length]
            at += length
            if at == len(block):
                break
            distance = block[at] | block[at + 1] << 8
            length, at = _lz4_length(block, token & 15, at + 2)
            if len(made) + length + _LEAST_MATCH > most:
                raise ValueError(TOO_LARGE)
            _repeat(made, distance, length + _LEAST_MATCH)
    except IndexError:
        raise ValueError("an lz4 block that ends early") from None
    if len(made) > most:
        raise ValueError(TOO_LARGE)
    return made


def _lz4_length(block: bytes, length: int, at: int) -> tuple[int, int]:
    """A length of 15 goes on in the next bytes, up to the first one that is not 255; also the place behind it."""
    if length == 15:
        while True:
            length, at = length + block[at], at + 1
            if block[at - 1] != 255:
                break
    return length, at


def xxh32(data: bytes) -> int:
    """XXH32 with seed 0: the checksum in LZ4's frames."""
    first, second, third, fourth, fifth = _PRIMES
    at, size = 0, len(data)
    if size >= 16:
        lanes = [first + second & _UINT32, second, 0, -first & _UINT32]
        while at <= size - 16:
            for lane in range(4):
                word = int.from_bytes(data[at : at + 4], "little")
                lanes[lane] = _rotated(lanes[lane] + word * second, 13) * first & _UINT32
                at += 4
        found = sum(_rotated(lane, bits) for lane, bits in zip(lanes, (1, 7, 12, 18), strict=True))
    else:
        found = fifth
    found += size
    while at <= size - 4:
        found = _rotated(found + int.from_bytes(data[at : at + 4], "little") * third, 17) * fourth
        at += 4
    for byte in data[at:]:
        found = _rotated(found + byte * fifth, 11) * first
    found &= _UINT32
    found = (found ^ found >> 15) * second & _UINT32
    found = (found ^ found >> 13) * third & _UINT32
    return found ^ found >> 16


def _rotated(value: int, bits: int) -> int:
    value &= _UINT32
    return (value << bits | value >> 32 - bits) & _UINT32
