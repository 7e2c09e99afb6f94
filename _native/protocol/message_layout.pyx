"""Describes declared messages: the layout of a class in memory, and of each of its versions on the wire.

bowstring.protocol declares each message once, as a class of slots with a field declaration for each slot. A Layout has the
place of each slot inside the object. The first use of a (class, version) compiles the declaration into a Plan: a flat C
array of what to read and write, in order. message_codec.pyx walks plans and the objects' memory, without looking up
attributes by name.
"""
from cpython.dict cimport PyDict_GetItem
from cpython.object cimport PyObject
from libc.stdlib cimport calloc, free


cdef extern from "structmember.h":
    ctypedef struct PyMemberDef:
        Py_ssize_t offset
    ctypedef struct PyMemberDescrObject:
        PyMemberDef *d_member

# A declaration's `kind` and `element` are indexes into this, in the order of Kind.
KINDS = (
    "bool", "int8", "int16", "uint16", "int32", "uint32", "int64", "float64", "uuid", "string", "bytes",
    "records", "struct", "array",
)
# Bytes of each kind of fixed size.
cdef int[9] SIZES = [1, 1, 2, 2, 4, 4, 8, 8, 16]


class ProtocolError(ValueError):
    """Bytes that are not the expected message, or an object that cannot be encoded.

    Attributes: `message`, name of the message class; `version`; `field`, the path of the field such as
    ``topics[3].partitions[0].leader_id`` or "" for the message as a whole; `offset`, the byte at which that
    field starts in the buffer read or written; `reason`.
    """

    def __init__(self, str message, int version, str field, Py_ssize_t offset, str reason):
        at = f"{field} at byte {offset}" if field else f"byte {offset}"
        super().__init__(f"{message} version {version}: {at}: {reason}")
        self.message = message
        self.version = version
        self.field = field
        self.offset = offset
        self.reason = reason


cdef class Layout:
    """The offsets of the slots of one declared class, and its compiled plans by version."""
    def __init__(self, str name, tuple fields, tuple versions, tuple flexible):
        self.name = name
        self.fields = fields
        self.versions = versions
        self.flexible = flexible
        self.plans = {}

    def __dealloc__(self):
        free(self.slots)

    cdef int bind(self, object cls) except -1:
        """Finds the slots of `cls`. Called for the first instance or plan, so that importing stays cheap."""
        cdef int i
        cdef Slot *slots = <Slot *>calloc(max(len(self.fields), 1), sizeof(Slot))
        if slots == NULL:
            raise MemoryError
        self.keep = []
        try:
            for i, field in enumerate(self.fields):
                descriptor = cls.__dict__[field.name]
                slots[i].offset = (<PyMemberDescrObject *>descriptor).d_member.offset
                default, name = field.default, field.name
                if default is None:
                    pass
                elif field.kind == KIND_ARRAY:
                    slots[i].fresh = 1
                elif field.kind == KIND_STRUCT:
                    slots[i].fresh = 2
                    default = field.struct()
                slots[i].default = <PyObject *>default
                slots[i].secret = field.secret
                slots[i].name = <PyObject *>name
                slots[i].struct = <PyObject *>field.struct if field.struct is not None else NULL
                self.keep.append((default, name))
        except BaseException:
            free(slots)
            raise
        self.cls = cls
        self.count = len(self.fields)
        self.slots = slots
        return 0


cdef inline Layout layout_of(object cls):
    cdef Layout layout = cls.__layout__
    if layout.slots == NULL:
        layout.bind(cls)
    return layout


cdef class StructBase:
    """Base of every declared class: keyword constructor, equality and repr over its slots. The repr hides secrets.

    `unknown_tags` maps the number of each unknown tagged field to its bytes, which are kept when a message is read and
    written again, as in Kafka.
    """
    def __init__(self, **values):
        cdef Layout layout = layout_of(type(self))
        cdef Slot *slot
        cdef PyObject *given
        cdef Py_ssize_t used = 0
        cdef int i
        for i in range(layout.count):
            slot = &layout.slots[i]
            given = PyDict_GetItem(values, <object>slot.name)
            if given != NULL:
                used += 1
                store(self, slot, <object>given)
            else:
                store(self, slot, new_default(slot))
        if used != len(values):
            known = [field.name for field in layout.fields]
            wrong = next(name for name in values if name not in known)
            raise TypeError(f"{layout.name} has no field {wrong!r}; its fields: {', '.join(known)}")

    def __eq__(self, other):
        if type(self) is not type(other):
            return NotImplemented
        for field in layout_of(type(self)).fields:
            if getattr(self, field.name) != getattr(other, field.name):
                return False
        return (self.unknown_tags or None) == ((<StructBase>other).unknown_tags or None)

    def __reduce__(self):
        """Supports copy and pickle."""
        values = {field.name: getattr(self, field.name) for field in layout_of(type(self)).fields}
        return rebuild, (type(self), values, self.unknown_tags)

    def __repr__(self):
        layout = layout_of(type(self))
        changed = [
            f"{layout.fields[i].name}={shown(&layout.slots[i], getattr(self, layout.fields[i].name))}"
            for i in range(layout.count)
            if not is_default(&layout.slots[i], getattr(self, layout.fields[i].name))
        ]
        return f"{layout.name}({', '.join(changed)})"


def rebuild(cls, dict values, dict unknown_tags):
    """Creates the instance that __reduce__ describes."""
    made = cls(**values)
    made.unknown_tags = unknown_tags
    return made


cdef str shown(const Slot *slot, object value):
    return "[hidden]" if slot.secret and value is not None else repr(value)


cdef bint is_default(const Slot *slot, object value) except -1:
    if slot.fresh == 1:
        return value is not None and len(value) == 0
    if value is None or <object>slot.default is None:
        return value is <object>slot.default
    return value == <object>slot.default


# ---------------------------------------------------------------- plans

cdef class Plan:
    """The wire layout of one version of a class."""
    def __dealloc__(self):
        free(self.ops)
        free(self.tagged)
        free(self.absent)
        free(self.refused)

    cdef int compile(self) except -1:
        cdef Layout layout = self.layout
        cdef int i
        cdef int room = max(layout.count, 1)
        self.ops = <Op *>calloc(room, sizeof(Op))
        self.tagged = <Op *>calloc(room, sizeof(Op))
        self.absent = <Slot **>calloc(room, sizeof(Slot *))
        self.refused = <Slot **>calloc(room, sizeof(Slot *))
        if self.ops == NULL or self.tagged == NULL or self.absent == NULL or self.refused == NULL:
            raise MemoryError
        self.keep = []
        self.depth = 1
        self.min_bytes = 1 if self.flexible else 0
        order = sorted(range(layout.count), key=lambda position: layout.fields[position].tag)
        for i in order:
            field = layout.fields[i]
            lowest, highest = field.versions
            if not lowest <= self.version <= highest:
                self.absent[self.absent_count] = &layout.slots[i]
                self.absent_count += 1
                if not field.ignorable:
                    self.refused[self.refused_count] = &layout.slots[i]
                    self.refused_count += 1
            elif field.tag >= 0:
                assert self.flexible, f"{layout.name}.{field.name} is tagged in a version without tags"
                self.fill(&self.tagged[self.tagged_count], field, &layout.slots[i])
                self.tagged_count += 1
            else:
                self.fill(&self.ops[self.count], field, &layout.slots[i])
                self.min_bytes += least_bytes(self.ops[self.count].kind, &self.ops[self.count])
                self.count += 1
        assert self.depth <= MAX_DEPTH and self.tagged_count <= MAX_TAGGED, layout.name
        self.shape = Shape(self.ops, self.tagged, self.count, self.tagged_count, self.flexible, False)
        for i in range(self.count):
            if self.ops[i].kind == KIND_ARRAY or (self.ops[i].shape != NULL and self.ops[i].shape.holds_arrays):
                self.shape.holds_arrays = True
        return 0

    cdef int fill(self, Op *op, object field, Slot *slot) except -1:
        cdef Plan inner
        op.slot = slot
        op.kind = field.kind
        op.element = field.element
        op.compact = self.flexible if field.flexible is None else field.flexible
        op.nullable = field.nullable[0] <= self.version <= field.nullable[1]
        op.is_explanation = field.kind == KIND_STRING and field.name.endswith(("error_message", "status_detail"))
        op.tag = field.tag
        if field.struct is not None:
            inner = plan_of(field.struct, self.version, self.flexible)
            self.keep.append(inner)
            self.depth = max(self.depth, inner.depth + 1)
            op.plan = <PyObject *>inner
            op.shape = &inner.shape
        return 0


cdef int64_t least_bytes(int kind, const Op *op):
    """Returns the least bytes of a value of `op`, or with another `kind` of an element of it."""
    if kind == KIND_STRUCT:
        return 1 if op.nullable and op.kind == KIND_STRUCT else (<Plan>op.plan).min_bytes
    if kind == KIND_STRING:
        return 1 if op.compact else 2
    if kind >= KIND_BYTES:
        return 1 if op.compact else 4
    return SIZES[kind]


cdef Plan plan_of(object cls, int version, bint flexible):
    cdef Layout layout = layout_of(cls)
    cdef Plan plan
    key = version * 2 + flexible
    found = layout.plans.get(key)
    if found is not None:
        return <Plan>found
    plan = Plan.__new__(Plan)
    plan.cls = cls
    plan.layout = layout
    plan.version = version
    plan.flexible = flexible
    plan.compile()
    layout.plans[key] = plan
    return plan


cdef Plan message_plan(object cls, int version):
    """Returns the plan of a message's version; ProtocolError if the message has no such version."""
    cdef Layout layout = layout_of(cls)
    lowest, highest = layout.versions
    if not lowest <= version <= highest:
        raise ProtocolError(layout.name, version, "", 0, f"only versions {lowest} to {highest} are known")
    return plan_of(cls, version, layout.flexible[0] <= version <= layout.flexible[1])


cdef int fail(const Trail *trail, str reason) except -1:
    """Raises ProtocolError for the current field."""
    cdef Plan plan = <Plan>trail.plan
    cdef int i
    path = ""
    for i in range(trail.depth + 1):
        if trail.ops[i] == NULL:
            break
        path += ("." if path else "") + <str><object>trail.ops[i].slot.name
        if trail.index[i] >= 0:
            path += f"[{trail.index[i]}]"
    raise ProtocolError(plan.layout.name, plan.version, path, trail.at, reason)


cdef str describe(const Trail *trail, object value):
    """Returns the type of a value that cannot be encoded, and the value unless its field is secret."""
    if trail.depth >= 0 and trail.ops[trail.depth].slot.secret:
        return f"{type(value).__name__} [hidden]"
    text = repr(value)
    return f"{type(value).__name__} {text if len(text) <= 40 else text[:37] + '...'}"
