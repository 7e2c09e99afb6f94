"""Protobuf messages for tests, described without protoc."""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf import duration_pb2 as _duration
from google.protobuf import timestamp_pb2 as _timestamp
from google.protobuf import wrappers_pb2 as _wrappers

_GOOGLE = (_timestamp.DESCRIPTOR, _wrappers.DESCRIPTOR, _duration.DESCRIPTOR)
SCALARS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 13, 15, 16, 17, 18)
REPEATED = (1, 3, 7, 8, 9, 14, 17)
OPTIONAL, REQUIRED, MANY = 1, 2, 3


class _Fields:
    """Adds fields to a message, numbered from 1."""

    def __init__(self, message: Any):
        self.message = message
        self.number = 0

    def add(self, name: str, kind: int, label: int = OPTIONAL, **more: Any) -> None:
        self.number += 1
        self.message.field.add(name=name, number=self.number, type=kind, label=label, **more)

    def add_map(self, name: str, key: int = 9, **value: Any) -> None:
        entry = self.message.nested_type.add(name=name.capitalize() + "Entry")
        entry.options.map_entry = True
        entry.field.add(name="key", number=1, type=key, label=OPTIONAL)
        entry.field.add(name="value", number=2, label=OPTIONAL, **value)
        self.add(name, 11, MANY, type_name=f".t.{self.message.name}.{name.capitalize()}Entry")


def _proto3() -> Any:
    file = descriptor_pb2.FileDescriptorProto(name="t.proto", package="t", syntax="proto3")
    file.dependency.extend(each.name for each in _GOOGLE)
    color = file.enum_type.add(name="Color")
    for name, number in (("RED", 0), ("GREEN", 1), ("BLUE", 7)):
        color.value.add(name=name, number=number)
    inner = file.message_type.add(name="Inner")
    inner.field.add(name="x", number=1, type=5, label=OPTIONAL)
    inner.field.add(name="s", number=2, type=9, label=MANY)
    inner.field.add(name="big", number=1000, type=18, label=OPTIONAL)
    message = file.message_type.add(name="M")
    fields = _Fields(message)
    for kind in SCALARS:
        fields.add(f"f{kind}", kind)
    for kind in REPEATED:
        fields.add(f"r{kind}", kind, MANY, **({"type_name": ".t.Color"} if kind == 14 else {}))
    fields.add("e", 14, type_name=".t.Color")
    fields.add("inner", 11, type_name=".t.Inner")
    fields.add("inners", 11, MANY, type_name=".t.Inner")
    message.oneof_decl.add(name="choice")
    fields.add("c1", 9, oneof_index=0)
    fields.add("c2", 11, oneof_index=0, type_name=".t.Inner")
    fields.add("c3", 5, oneof_index=0)
    fields.add_map("mp", type=5)
    fields.add_map("mm", type=11, type_name=".t.Inner")
    fields.add_map("me", type=14, type_name=".t.Color")
    for name, known in (("ts", "Timestamp"), ("wi", "Int64Value"), ("ws", "StringValue")):
        fields.add(name, 11, type_name=f".google.protobuf.{known}")
    message.oneof_decl.add(name="_opt")
    fields.add("opt", 5, oneof_index=1, proto3_optional=True)
    fields.add("du", 11, type_name=".google.protobuf.Duration")
    nested = message.nested_type.add(name="Deep")
    nested.field.add(name="v", number=1, type=5, label=OPTIONAL)
    words = file.message_type.add(name="Words")
    fields = _Fields(words)
    fields.add_map("counts", type=18)
    fields.add("tags", 9, MANY)
    keyed = file.message_type.add(name="Keyed")
    fields = _Fields(keyed)
    fields.add_map("numbers", key=5, type=9)
    fields.add_map("flags", key=8, type=8)
    fields.add_map("words", key=9, type=11, type_name=".t.Words")
    fields.add_map("times", key=3, type=11, type_name=".google.protobuf.Timestamp")
    recursive = file.message_type.add(name="Tree")
    recursive.field.add(name="child", number=1, type=11, label=OPTIONAL, type_name=".t.Tree")
    return file


def _proto2() -> Any:
    file = descriptor_pb2.FileDescriptorProto(name="t2.proto", package="t2", syntax="proto2")
    kind = file.enum_type.add(name="Kind")
    kind.value.add(name="ONE", number=1)
    message = file.message_type.add(name="Old")
    fields = _Fields(message)
    fields.add("n", 5, REQUIRED)
    fields.add("kind", 14, type_name=".t2.Kind")
    group = message.nested_type.add(name="G")
    group.field.add(name="a", number=1, type=9, label=OPTIONAL)
    fields.add("g", 10, type_name=".t2.Old.G")
    fields.add("gs", 10, MANY, type_name=".t2.Old.G")
    fields.add("unpacked", 5, MANY)
    return file


FILES = descriptor_pb2.FileDescriptorSet()
for _each in _GOOGLE:
    _each.CopyToProto(FILES.file.add())
FILES.file.extend([_proto3(), _proto2()])
_pool = descriptor_pool.DescriptorPool()
for _file in FILES.file:
    _pool.Add(_file)
M, Tree, Deep, Keyed, Old = (
    message_factory.GetMessageClass(_pool.FindMessageTypeByName(name))
    for name in ("t.M", "t.Tree", "t.M.Deep", "t.Keyed", "t2.Old")
)


def person_classes() -> tuple[Any, Any]:
    """Returns two message classes of one file: the second is inside the file's second message."""
    file = descriptor_pb2.FileDescriptorProto(name="shop/order.proto", package="shop", syntax="proto3")
    file.dependency.append(_timestamp.DESCRIPTOR.name)
    file.message_type.add(name="Customer").field.add(name="name", number=1, type=9, label=OPTIONAL)
    outer = file.message_type.add(name="Cart")
    outer.field.add(name="at", number=1, type=11, label=OPTIONAL, type_name=".google.protobuf.Timestamp")
    inner = outer.nested_type.add(name="Order")
    inner.field.add(name="id", number=1, type=3, label=OPTIONAL)
    inner.field.add(name="item", number=2, type=9, label=OPTIONAL)
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(_timestamp.DESCRIPTOR.serialized_pb)
    pool.Add(file)
    names = ("shop.Customer", "shop.Cart.Order")
    return tuple(message_factory.GetMessageClass(pool.FindMessageTypeByName(name)) for name in names)  # type: ignore[return-value]


def linked_class() -> Any:
    """Returns a message class whose file imports another one, besides one of Google's."""
    customer = descriptor_pb2.FileDescriptorProto(name="shop/customer.proto", package="shop", syntax="proto3")
    customer.message_type.add(name="Buyer").field.add(name="name", number=1, type=9, label=OPTIONAL)
    file = descriptor_pb2.FileDescriptorProto(name="shop/linked.proto", package="shop", syntax="proto3")
    file.dependency.append(customer.name)
    message = file.message_type.add(name="Linked")
    message.field.add(name="id", number=1, type=3, label=OPTIONAL)
    message.field.add(name="customer", number=2, type=11, label=OPTIONAL, type_name=".shop.Buyer")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(customer)
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Linked"))


def wrapped_class() -> Any:
    """A message with google.protobuf's messages: an Int64Value, a StringValue and a Timestamp."""
    file = descriptor_pb2.FileDescriptorProto(name="wrapped.proto", package="w", syntax="proto3")
    file.dependency.extend(each.name for each in _GOOGLE)
    fields = _Fields(file.message_type.add(name="Wrapped"))
    for name, kind in (("amount", "Int64Value"), ("title", "StringValue"), ("at", "Timestamp")):
        fields.add(name, 11, type_name=f".google.protobuf.{kind}")
    pool = descriptor_pool.DescriptorPool()
    for each in _GOOGLE:
        pool.AddSerializedFile(each.serialized_pb)
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("w.Wrapped"))


def first_of_its_file(message: Any) -> bytes:
    """The serialized file of a message, which is made its first one."""
    file = descriptor_pb2.FileDescriptorProto()
    message.DESCRIPTOR.file.CopyToProto(file)
    others = [each for each in file.message_type if each.name != message.DESCRIPTOR.name]
    own = next(each for each in file.message_type if each.name == message.DESCRIPTOR.name)
    ordered = descriptor_pb2.FileDescriptorProto()
    ordered.CopyFrom(file)
    del ordered.message_type[:]
    ordered.message_type.extend([own, *others])
    return bytes(ordered.SerializeToString())
