"""Rules of access control, and decisions by them: Kafka's StandardAuthorizer (KIP-11, KIP-290, KIP-679).

Patterns are found by a hash of type, name and whether they are prefixes; the hashes of all prefixes of a name come from
one walk over it. The rules of a pattern are sorted by principal. Pure: the caller locks. Changing one rule costs the
same however many there are.

A decision about one resource: a matching DENY denies, else a matching ALLOW allows. Without a match, it is denied where a
pattern of any rule fits the resource, else `allows_without_rules` counts.
"""
from libc.stdint cimport int8_t, int32_t, uint8_t, uint32_t, uint64_t

cdef enum:
    ACL_TYPES = 16                  # resource types, exclusive; of Kafka's, 7 is the last
    ANY_PRINCIPAL = 0               # User:*
    NO_PRINCIPAL = -1               # no rule names it
    ADDRESS_BYTES = 16

cdef enum AclCode:
    # Numbers of Kafka's AclOperation and AclPermissionType.
    OPERATION_ALL = 2
    OPERATION_READ = 3
    OPERATION_WRITE = 4
    OPERATION_DELETE = 6
    OPERATION_ALTER = 7
    OPERATION_DESCRIBE = 8
    OPERATION_CLUSTER_ACTION = 9
    OPERATION_DESCRIBE_CONFIGS = 10
    OPERATION_ALTER_CONFIGS = 11
    PERMISSION_DENY = 2
    PERMISSION_ALLOW = 3

cdef enum AclResource:
    # Numbers of Kafka's ResourceType.
    RESOURCE_TOPIC = 2
    RESOURCE_CLUSTER = 4
    RESOURCE_TRANSACTIONAL_ID = 5

cdef struct AclHost:
    # The hosts of a rule: addresses that begin with `bits` bits of `address`.
    uint8_t address[ADDRESS_BYTES]
    int8_t family                   # 4, 6; 0: no address, which no client has; 1: any host
    uint8_t bits

cdef struct AclRule:
    int32_t principal
    int8_t operation
    int8_t denies
    AclHost host

cdef struct AclPattern:
    AclPattern *next                # in its bucket
    uint64_t hash
    int8_t type
    int8_t prefixed
    int32_t length
    uint8_t *name                   # after the struct
    int32_t count
    int32_t capacity
    AclRule *rules                  # sorted by principal

cdef struct AclPrincipal:
    AclPrincipal *next              # in its bucket
    uint64_t hash
    int32_t id
    int32_t refs                    # rules that name it, and super.users
    int8_t is_super
    int32_t length
    uint8_t *name                   # after the struct

cdef struct PrefixLengths:
    # The lengths of the prefixed patterns of a type, ascending, and how many patterns have each.
    int32_t *lengths
    int32_t *counts
    int32_t count
    int32_t capacity

cdef struct AclRules:
    AclPattern **patterns           # buckets
    uint32_t pattern_mask
    int32_t pattern_count
    AclPrincipal **principals       # buckets
    uint32_t principal_mask
    int32_t principal_count
    int32_t next_principal
    PrefixLengths prefixes[ACL_TYPES]
    int32_t rule_count
    int8_t allows_without_rules     # allow.everyone.if.no.acl.found
    int8_t is_loaded                # until then only super users may do anything

cdef struct AclSubject:
    # A principal at an address, as the rules have them. Void once the rules change.
    int32_t principal
    int8_t is_super
    int8_t family
    uint8_t address[ADDRESS_BYTES]

# Sets `subject` for a principal such as User:alice and an address in text form.
cdef void acl_subject(const AclRules *rules, const uint8_t *principal, int32_t length, const char *address,
                      AclSubject *subject) noexcept nogil
# Whether the subject may do an operation on a resource.
cdef bint acl_decide(const AclRules *rules, const AclSubject *subject, int8_t operation, int8_t type,
                     const uint8_t *name, int32_t length) noexcept nogil

cdef class AclTable:
    cdef AclRules rules

    cdef void _release(self, AclPrincipal *principal)
    cdef AclPrincipal *_principal(self, bytes name) except NULL
    cdef AclPattern *_pattern(self, int8_t type, bint prefixed, bytes name) except NULL
    cdef int _insert(self, AclPattern *pattern, const AclRule *rule) except -1
    cdef void _drop(self, AclPattern *pattern)
