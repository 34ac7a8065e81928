"""The slow twin of the object codec: encodes and decodes by a plan in plain Python, value by value.

Twin of kcore._ext.wire.object_codec and of its parts kcore._ext.wire.wire_program, kcore._ext.wire.wire_reader,
kcore._ext.wire.wire_writer, kcore._ext.wire.wire_parts (its parts joined) and kcore._ext.wire.wire_lists: a list is a
list from the start.
"""

import struct
from io import BytesIO
from typing import Any

from kcore.errors import DecodeError
from kcore.schema.kinds import Kind
from kcore.types import Uuid
from kcore.wire.plan import Step, StructPlan

FORMATS = {
    Kind.BOOL: ">?",
    Kind.INT8: ">b",
    Kind.INT16: ">h",
    Kind.UINT16: ">H",
    Kind.INT32: ">i",
    Kind.UINT32: ">I",
    Kind.INT64: ">q",
    Kind.FLOAT64: ">d",
}


def write(message: Any, plan: StructPlan) -> bytes:
    """The bytes of a message that its version can carry."""
    written = b"".join(write_value(getattr(message, field.field.name), field.step) for field in plan.in_line)
    return written + (write_tagged(message, plan) if plan.flexible else b"")


def write_tagged(message: Any, plan: StructPlan) -> bytes:
    fields = dict(message.unknown_tagged_fields)
    for field in plan.tagged:
        value = getattr(message, field.field.name)
        if value != field.field.default():
            assert field.tag is not None
            fields[field.tag] = write_value(value, field.step)
    entries = [write_varint(tag) + write_varint(len(fields[tag])) + fields[tag] for tag in sorted(fields)]
    return write_varint(len(entries)) + b"".join(entries)


def write_value(value: Any, step: Step) -> bytes:
    if step.kind in FORMATS:
        return struct.pack(FORMATS[step.kind], value)
    if step.kind is Kind.UUID:
        return bytes(value)
    if step.struct is not None:
        if value is None:
            return b"\xff"
        return (b"\x01" if step.nullable else b"") + write(value, step.struct)
    if value is None:
        return write_length(-1, step)
    if step.element is not None:
        return write_length(len(value), step) + b"".join(write_value(element, step.element) for element in value)
    data = value.encode() if step.kind is Kind.STRING else bytes(value)
    return write_length(len(data), step) + data


def write_length(length: int, step: Step) -> bytes:
    if step.compact:
        return write_varint(length + 1)
    return struct.pack(">h" if step.kind is Kind.STRING else ">i", length)


def write_varint(number: int) -> bytes:
    if number < 0x80:
        return bytes([number])
    return bytes([number & 0x7F | 0x80]) + write_varint(number >> 7)


def read(data: bytes, plan: StructPlan) -> Any:
    """The message in all of `data`; DecodeError, at any offset, if it is not one."""
    stream = BytesIO(data)
    try:
        message = read_struct(stream, plan)
    except (struct.error, UnicodeDecodeError, EOFError) as error:
        raise DecodeError(str(error), stream.tell()) from error
    if stream.tell() < len(data):
        raise DecodeError("left over", stream.tell())
    return message


def read_exactly(stream: BytesIO, size: int) -> bytes:
    data = stream.read(size)
    if len(data) < size:
        raise EOFError("the bytes end")
    return data


def read_struct(stream: BytesIO, plan: StructPlan) -> Any:
    message = plan.struct(**{field.field.name: read_value(stream, field.step) for field in plan.in_line})
    if plan.flexible:
        read_tagged(stream, plan, message)
    return message


def read_tagged(stream: BytesIO, plan: StructPlan, message: Any) -> None:
    known = {field.tag: field for field in plan.tagged}
    unknown: list[tuple[int, bytes]] = []
    previous = -1
    for _ in range(read_varint(stream)):
        tag = read_varint(stream)
        data = read_exactly(stream, read_varint(stream))
        if tag <= previous:
            raise DecodeError("tags out of order", stream.tell())
        previous = tag
        if tag in known:
            inner = BytesIO(data)
            setattr(message, known[tag].field.name, read_value(inner, known[tag].step))
            if inner.tell() < len(data):
                raise DecodeError("the tagged field is shorter than its size", stream.tell())
        else:
            unknown.append((tag, data))
    message.unknown_tagged_fields = tuple(unknown)


def read_value(stream: BytesIO, step: Step) -> Any:
    if step.kind in FORMATS:
        form = FORMATS[step.kind]
        return struct.unpack(form, read_exactly(stream, struct.calcsize(form)))[0]
    if step.kind is Kind.UUID:
        return Uuid(read_exactly(stream, 16))
    if step.struct is not None:
        if step.nullable and struct.unpack(">b", read_exactly(stream, 1))[0] < 0:
            return None
        return read_struct(stream, step.struct)
    length = read_length(stream, step)
    if length < 0:
        if not step.nullable:
            raise DecodeError("null", stream.tell())
        return None
    if step.element is not None:
        return [read_value(stream, step.element) for _ in range(length)]
    if step.kind is Kind.STRING and length > 32_767:
        raise DecodeError("too long", stream.tell())
    data = read_exactly(stream, length)
    return data.decode() if step.kind is Kind.STRING else data


def read_length(stream: BytesIO, step: Step) -> int:
    if step.compact:
        return read_varint(stream) - 1
    size, form = (2, ">h") if step.kind is Kind.STRING else (4, ">i")
    length: int = struct.unpack(form, read_exactly(stream, size))[0]
    return length


def read_varint(stream: BytesIO) -> int:
    number = 0
    for shift in range(0, 35, 7):
        byte = read_exactly(stream, 1)[0]
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            if number >= 2**32:
                break
            return number
    raise DecodeError("a varint of more than 32 bits", stream.tell())
