"""Keeps the rules of access control and decides by them, see acl_table.pxd."""
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memcmp, memcpy, memmove, memset, strchr, strlen, strrchr

cdef extern from *:
    """
    #include <arpa/inet.h>
    """
    int AF_INET
    int AF_INET6
    int inet_pton(int family, const char *text, void *address) nogil

cdef extern from "Python.h":
    const char *PyUnicode_AsUTF8AndSize(object text, Py_ssize_t *size) except NULL

cdef enum:
    PATTERN_PREFIXED = 4            # Kafka's PatternType; LITERAL is 3
    ANY_HOST = 1                    # AclHost.family
    HOST_BYTES_MAX = 64             # longer texts are no address
    TABLE_MIN = 64

ctypedef fused Linked:
    # What the hash tables hold.
    AclPattern
    AclPrincipal

# ---------------------------------------------------------------- hashes


cdef inline uint64_t mixed(uint64_t h) noexcept nogil:
    h = (h ^ (h >> 32)) * <uint64_t>0x9E3779B97F4A7C15
    return h ^ (h >> 29)


cdef inline uint64_t walk(uint64_t h, uint8_t byte) noexcept nogil:
    """FNV-1a: the hash of a name's first n + 1 bytes, from that of its first n."""
    return (h ^ byte) * <uint64_t>0x100000001B3


cdef inline uint64_t walk_start() noexcept nogil:
    return <uint64_t>0xCBF29CE484222325


cdef inline uint64_t pattern_hash(uint64_t walked, int8_t type, bint prefixed) noexcept nogil:
    return mixed(walked + <uint64_t>(type * 2 + prefixed) * <uint64_t>0xD6E8FEB86659FD93)


cdef uint64_t walked(const uint8_t *name, int32_t length) noexcept nogil:
    cdef uint64_t h = walk_start()
    cdef int32_t i
    for i in range(length):
        h = walk(h, name[i])
    return h


cdef AclPattern *find_pattern(const AclRules *rules, uint64_t h, int8_t type, bint prefixed, const uint8_t *name,
                              int32_t length) noexcept nogil:
    cdef AclPattern *pattern
    if rules.patterns == NULL:
        return NULL
    pattern = rules.patterns[h & rules.pattern_mask]
    while pattern != NULL:
        if (pattern.hash == h and pattern.type == type and pattern.prefixed == prefixed
                and pattern.length == length and memcmp(pattern.name, name, length) == 0):
            return pattern
        pattern = pattern.next
    return NULL


cdef AclPrincipal *find_principal(const AclRules *rules, uint64_t h, const uint8_t *name,
                                  int32_t length) noexcept nogil:
    cdef AclPrincipal *principal
    if rules.principals == NULL:
        return NULL
    principal = rules.principals[h & rules.principal_mask]
    while principal != NULL:
        if principal.hash == h and principal.length == length and memcmp(principal.name, name, length) == 0:
            return principal
        principal = principal.next
    return NULL

# ---------------------------------------------------------------- hosts


cdef void host_of(const char *peer, char *host) noexcept nogil:
    """Copies the address of a peer, ``host:port`` with or without brackets. One that is too long becomes empty."""
    cdef const char *end = strrchr(peer, c':')
    cdef const char *start = peer
    host[0] = 0
    if end == NULL:
        return
    if start < end and start[0] == c'[':
        start += 1
    if start < end and (end - 1)[0] == c']':
        end -= 1
    if end - start < HOST_BYTES_MAX:
        memcpy(host, start, end - start)
        host[end - start] = 0


cdef void read_address(const char *text, int32_t length, uint8_t *address, int8_t *family) noexcept nogil:
    """Reads an address in any of its text forms; family 0: it is none."""
    cdef char copy[HOST_BYTES_MAX]
    cdef char *zone
    family[0] = 0
    memset(address, 0, ADDRESS_BYTES)
    if length >= HOST_BYTES_MAX:
        return
    memcpy(copy, text, length)
    copy[length] = 0
    zone = strchr(copy, c'%')
    if zone != NULL:
        zone[0] = 0
    if inet_pton(AF_INET, copy, address) == 1:
        family[0] = 4
    elif inet_pton(AF_INET6, copy, address) == 1:
        family[0] = 6


cdef void read_host(const char *text, int32_t length, AclHost *host) noexcept nogil:
    """Reads the host of a rule: `*`, an address, or a block of addresses such as 10.0.0.0/8."""
    cdef const char *slash = strchr(text, c'/')
    cdef int32_t i, bits = 0, most
    memset(host, 0, sizeof(AclHost))
    if length == 1 and text[0] == c'*':
        host.family = ANY_HOST
        return
    if slash == NULL:
        read_address(text, length, host.address, &host.family)
        host.bits = 128 if host.family == 6 else 32
        return
    read_address(text, <int32_t>(slash - text), host.address, &host.family)
    most = 128 if host.family == 6 else 32
    i = <int32_t>(slash - text) + 1
    if i == length:
        host.family = 0
    while i < length:
        bits = bits * 10 + (text[i] - c'0')
        if text[i] < c'0' or text[i] > c'9' or bits > most:
            host.family = 0
            return
        i += 1
    host.bits = <uint8_t>bits


cdef bint host_fits(const AclHost *host, const AclSubject *subject) noexcept nogil:
    cdef int32_t whole = host.bits // 8, rest = host.bits % 8
    if host.family == ANY_HOST:
        return True
    if host.family == 0 or host.family != subject.family:
        return False
    if memcmp(host.address, subject.address, whole) != 0:
        return False
    return rest == 0 or (host.address[whole] ^ subject.address[whole]) >> (8 - rest) == 0

# ---------------------------------------------------------------- decisions


cdef void acl_subject(const AclRules *rules, const uint8_t *principal, int32_t length, const char *address,
                      AclSubject *subject) noexcept nogil:
    cdef const AclPrincipal *found = find_principal(rules, mixed(walked(principal, length)), principal, length)
    subject.principal = NO_PRINCIPAL if found == NULL else found.id
    subject.is_super = found != NULL and found.is_super
    read_address(address, <int32_t>strlen(address), subject.address, &subject.family)


cdef bint operation_fits(const AclRule *rule, int8_t operation, bint implied) noexcept nogil:
    """Whether a rule is about an operation. `implied`: others imply DESCRIBE and DESCRIBE_CONFIGS in rules that allow."""
    if rule.operation == operation or rule.operation == OPERATION_ALL:
        return True
    if not implied or rule.denies:
        return False
    if operation == OPERATION_DESCRIBE:
        return (rule.operation == OPERATION_READ or rule.operation == OPERATION_WRITE
                or rule.operation == OPERATION_DELETE or rule.operation == OPERATION_ALTER)
    return operation == OPERATION_DESCRIBE_CONFIGS and rule.operation == OPERATION_ALTER_CONFIGS


cdef int32_t first_of(const AclPattern *pattern, int32_t principal) noexcept nogil:
    """Returns the index of the first rule whose principal is not below this one."""
    cdef int32_t low = 0, high = pattern.count, middle
    while low < high:
        middle = (low + high) // 2
        if pattern.rules[middle].principal < principal:
            low = middle + 1
        else:
            high = middle
    return low


cdef enum Found:
    FOUND_NOTHING = 0
    FOUND_ALLOW = 1
    FOUND_DENY = 2


cdef int look_at_principal(const AclPattern *pattern, int32_t principal, const AclSubject *subject, int8_t operation,
                           bint implied) noexcept nogil:
    cdef int32_t i = first_of(pattern, principal)
    cdef const AclRule *rule
    cdef int found = FOUND_NOTHING
    while i < pattern.count and pattern.rules[i].principal == principal:
        rule = &pattern.rules[i]
        if operation_fits(rule, operation, implied) and host_fits(&rule.host, subject):
            found |= FOUND_DENY if rule.denies else FOUND_ALLOW
        i += 1
    return found


cdef int look_at(const AclPattern *pattern, const AclSubject *subject, int8_t operation, bint implied) noexcept nogil:
    """Returns the Founds of the pattern's rules that are about the subject and the operation."""
    cdef int found = look_at_principal(pattern, ANY_PRINCIPAL, subject, operation, implied)
    if subject.principal > ANY_PRINCIPAL:
        found |= look_at_principal(pattern, subject.principal, subject, operation, implied)
    return found


cdef const uint8_t *WILDCARD = b"*"


cdef AclPattern *wildcard(const AclRules *rules, int8_t type) noexcept nogil:
    return find_pattern(rules, pattern_hash(walk(walk_start(), c'*'), type, False), type, False, WILDCARD, 1)


cdef bint acl_decide(const AclRules *rules, const AclSubject *subject, int8_t operation, int8_t type,
                     const uint8_t *name, int32_t length) noexcept nogil:
    cdef const PrefixLengths *prefixes
    cdef const AclPattern *pattern
    cdef uint64_t h = walk_start()
    cdef int32_t i = 0, k
    cdef int found = FOUND_NOTHING
    cdef bint fits = False
    if subject.is_super:
        return True
    if not rules.is_loaded or not 0 <= type < ACL_TYPES:
        return False
    pattern = wildcard(rules, type)
    if pattern != NULL:
        fits = True
        found |= look_at(pattern, subject, operation, True)
    prefixes = &rules.prefixes[type]
    for k in range(prefixes.count):
        if prefixes.lengths[k] > length or found & FOUND_DENY:
            break
        while i < prefixes.lengths[k]:
            h = walk(h, name[i])
            i += 1
        pattern = find_pattern(rules, pattern_hash(h, type, True), type, True, name, i)
        if pattern != NULL:
            fits = True
            found |= look_at(pattern, subject, operation, True)
    while i < length:
        h = walk(h, name[i])
        i += 1
    pattern = find_pattern(rules, pattern_hash(h, type, False), type, False, name, length)
    if pattern != NULL:
        fits = True
        found |= look_at(pattern, subject, operation, True)
    if found & FOUND_DENY:
        return False
    return found == FOUND_ALLOW or (not fits and rules.allows_without_rules)


cdef bint denied_by_prefix(const AclRules *rules, const AclSubject *subject, int8_t operation,
                           const AclPattern *allowing) noexcept nogil:
    """Whether a prefix that covers all names of a pattern denies."""
    cdef const PrefixLengths *prefixes = &rules.prefixes[allowing.type]
    cdef const AclPattern *pattern
    cdef uint64_t h = walk_start()
    cdef int32_t i = 0, k
    for k in range(prefixes.count):
        if prefixes.lengths[k] > allowing.length:
            break
        while i < prefixes.lengths[k]:
            h = walk(h, allowing.name[i])
            i += 1
        pattern = find_pattern(rules, pattern_hash(h, allowing.type, True), allowing.type, True, allowing.name, i)
        if pattern != NULL and look_at(pattern, subject, operation, False) & FOUND_DENY:
            return True
    return False


cdef bint decide_some(const AclRules *rules, const AclSubject *subject, int8_t operation, int8_t type) noexcept nogil:
    """Whether some name of a type is allowed (KIP-679). As in Kafka, a fixed name stands for those without rules."""
    cdef const AclPattern *pattern
    cdef int found
    cdef uint32_t i
    if acl_decide(rules, subject, operation, type, b"hardcode", 8):
        return True
    if not rules.is_loaded or rules.patterns == NULL or not 0 <= type < ACL_TYPES:
        return False
    pattern = wildcard(rules, type)
    if pattern != NULL:
        found = look_at(pattern, subject, operation, False)
        if found != FOUND_NOTHING:
            return not found & FOUND_DENY
    for i in range(rules.pattern_mask + 1):
        pattern = rules.patterns[i]
        while pattern != NULL:
            if pattern.type == type:
                found = look_at(pattern, subject, operation, False)
                if (found & FOUND_ALLOW and not (found & FOUND_DENY and not pattern.prefixed)
                        and not denied_by_prefix(rules, subject, operation, pattern)):
                    return True
            pattern = pattern.next
    return False

# ---------------------------------------------------------------- changes


cdef bint grow(Linked ***buckets, uint32_t *mask) noexcept nogil:
    """Doubles a table. False when memory ran out."""
    cdef uint32_t size = max(TABLE_MIN, 2 * (mask[0] + 1)), i
    cdef Linked **grown = <Linked **>calloc(size, sizeof(Linked *))
    cdef Linked *each
    cdef Linked *following
    if grown == NULL:
        return False
    if buckets[0] != NULL:
        for i in range(mask[0] + 1):
            each = buckets[0][i]
            while each != NULL:
                following = each.next
                each.next = grown[each.hash & (size - 1)]
                grown[each.hash & (size - 1)] = each
                each = following
    free(buckets[0])
    buckets[0] = grown
    mask[0] = size - 1
    return True


cdef bint prefix_count(PrefixLengths *prefixes, int32_t length, int32_t change) noexcept nogil:
    """Counts a prefixed pattern of a length, or one less. False when memory ran out."""
    cdef int32_t at = 0, capacity
    cdef int32_t *grown
    while at < prefixes.count and prefixes.lengths[at] < length:
        at += 1
    if at < prefixes.count and prefixes.lengths[at] == length:
        prefixes.counts[at] += change
        if prefixes.counts[at] == 0:
            prefixes.count -= 1
            memmove(&prefixes.lengths[at], &prefixes.lengths[at + 1], (prefixes.count - at) * sizeof(int32_t))
            memmove(&prefixes.counts[at], &prefixes.counts[at + 1], (prefixes.count - at) * sizeof(int32_t))
        return True
    if prefixes.count == prefixes.capacity:
        capacity = prefixes.capacity * 2 + 8
        grown = <int32_t *>realloc(prefixes.lengths, capacity * sizeof(int32_t))
        if grown == NULL:
            return False
        prefixes.lengths = grown
        grown = <int32_t *>realloc(prefixes.counts, capacity * sizeof(int32_t))
        if grown == NULL:
            return False
        prefixes.counts = grown
        prefixes.capacity = capacity
    memmove(&prefixes.lengths[at + 1], &prefixes.lengths[at], (prefixes.count - at) * sizeof(int32_t))
    memmove(&prefixes.counts[at + 1], &prefixes.counts[at], (prefixes.count - at) * sizeof(int32_t))
    prefixes.lengths[at] = length
    prefixes.counts[at] = change
    prefixes.count += 1
    return True


cdef class AclTable:
    """The rules of a node.

    Attributes:
        allows_without_rules: Whether a resource that no rule is about is open to everyone
            (``allow.everyone.if.no.acl.found``).
        is_loaded: Whether the rules are complete. Before, only super users may do anything.
    """

    def __cinit__(self):
        memset(&self.rules, 0, sizeof(AclRules))
        self._principal(b"User:*")                       # gets ANY_PRINCIPAL, and stays

    def __dealloc__(self):
        cdef AclPattern *pattern
        cdef AclPattern *after
        cdef AclPrincipal *principal
        cdef AclPrincipal *behind
        cdef uint32_t i
        if self.rules.patterns != NULL:
            for i in range(self.rules.pattern_mask + 1):
                pattern = self.rules.patterns[i]
                while pattern != NULL:
                    after = pattern.next
                    free(pattern.rules)
                    free(pattern)
                    pattern = after
        if self.rules.principals != NULL:
            for i in range(self.rules.principal_mask + 1):
                principal = self.rules.principals[i]
                while principal != NULL:
                    behind = principal.next
                    free(principal)
                    principal = behind
        for i in range(ACL_TYPES):
            free(self.rules.prefixes[i].lengths)
            free(self.rules.prefixes[i].counts)
        free(self.rules.patterns)
        free(self.rules.principals)

    def __len__(self):
        return self.rules.rule_count

    @property
    def allows_without_rules(self):
        return bool(self.rules.allows_without_rules)

    @allows_without_rules.setter
    def allows_without_rules(self, bint value):
        self.rules.allows_without_rules = value

    @property
    def is_loaded(self):
        return bool(self.rules.is_loaded)

    @is_loaded.setter
    def is_loaded(self, bint value):
        self.rules.is_loaded = value

    def memory_bytes(self):
        """Returns the bytes of memory of the rules."""
        cdef int64_t size = sizeof(AclRules)
        cdef AclPattern *pattern
        cdef AclPrincipal *principal
        cdef uint32_t i
        if self.rules.patterns != NULL:
            size += (self.rules.pattern_mask + 1) * <int64_t>sizeof(void *)
            for i in range(self.rules.pattern_mask + 1):
                pattern = self.rules.patterns[i]
                while pattern != NULL:
                    size += <int64_t>sizeof(AclPattern) + pattern.length
                    size += pattern.capacity * <int64_t>sizeof(AclRule)
                    pattern = pattern.next
        for i in range(self.rules.principal_mask + 1):
            principal = self.rules.principals[i]
            while principal != NULL:
                size += <int64_t>sizeof(AclPrincipal) + principal.length
                principal = principal.next
        return size

    # ------------------------------------------------------------ changes

    cdef AclPrincipal *_principal(self, bytes name) except NULL:
        """Returns a principal with one more reference."""
        cdef AclRules *rules = &self.rules
        cdef const uint8_t *data = <const uint8_t *>PyBytes_AS_STRING(name)
        cdef int32_t length = <int32_t>PyBytes_GET_SIZE(name)
        cdef uint64_t h = mixed(walked(data, length))
        cdef AclPrincipal *found = find_principal(rules, h, data, length)
        if found == NULL:
            if ((rules.principals == NULL or <uint32_t>rules.principal_count > rules.principal_mask)
                    and not grow(&rules.principals, &rules.principal_mask)):
                raise MemoryError
            found = <AclPrincipal *>calloc(1, sizeof(AclPrincipal) + length)
            if found == NULL:
                raise MemoryError
            found.name = <uint8_t *>(found + 1)
            memcpy(found.name, data, length)
            found.length = length
            found.hash = h
            found.id = rules.next_principal
            rules.next_principal += 1
            found.next = rules.principals[h & rules.principal_mask]
            rules.principals[h & rules.principal_mask] = found
            rules.principal_count += 1
        found.refs += 1
        return found

    cdef void _release(self, AclPrincipal *principal):
        cdef AclPrincipal **at
        principal.refs -= 1
        if principal.refs == 0:
            at = &self.rules.principals[principal.hash & self.rules.principal_mask]
            while at[0] != principal:
                at = &at[0].next
            at[0] = principal.next
            self.rules.principal_count -= 1
            free(principal)

    def set_super_users(self, names):
        """Sets the principals that may do everything, such as ``b"User:admin"``, in place of those before."""
        cdef AclPrincipal *principal
        cdef uint32_t i
        cdef list released = []
        for i in range(self.rules.principal_mask + 1):
            principal = self.rules.principals[i]
            while principal != NULL:
                if principal.is_super:
                    principal.is_super = False
                    released.append((<uint8_t *>principal.name)[:principal.length])
                principal = principal.next
        for name in dict.fromkeys(names):
            self._principal(name).is_super = True
        for name in released:
            self._release(self._principal(name))
            self._release(self._principal(name))

    cdef AclPattern *_pattern(self, int8_t type, bint prefixed, bytes name) except NULL:
        cdef AclRules *rules = &self.rules
        cdef const uint8_t *data = <const uint8_t *>PyBytes_AS_STRING(name)
        cdef int32_t length = <int32_t>PyBytes_GET_SIZE(name)
        cdef uint64_t h = pattern_hash(walked(data, length), type, prefixed)
        cdef AclPattern *found = find_pattern(rules, h, type, prefixed, data, length)
        if found != NULL:
            return found
        if ((rules.patterns == NULL or <uint32_t>rules.pattern_count > rules.pattern_mask)
                and not grow(&rules.patterns, &rules.pattern_mask)):
            raise MemoryError
        if prefixed and not prefix_count(&rules.prefixes[type], length, 1):
            raise MemoryError
        found = <AclPattern *>calloc(1, sizeof(AclPattern) + length)
        if found == NULL:
            raise MemoryError
        found.name = <uint8_t *>(found + 1)
        memcpy(found.name, data, length)
        found.length = length
        found.hash = h
        found.type = type
        found.prefixed = prefixed
        found.next = rules.patterns[h & rules.pattern_mask]
        rules.patterns[h & rules.pattern_mask] = found
        rules.pattern_count += 1
        return found

    cdef void _drop(self, AclPattern *pattern):
        """Frees a pattern without rules."""
        cdef AclPattern **at = &self.rules.patterns[pattern.hash & self.rules.pattern_mask]
        while at[0] != pattern:
            at = &at[0].next
        at[0] = pattern.next
        if pattern.prefixed:
            prefix_count(&self.rules.prefixes[pattern.type], pattern.length, -1)
        self.rules.pattern_count -= 1
        free(pattern.rules)
        free(pattern)

    cdef int _insert(self, AclPattern *pattern, const AclRule *rule) except -1:
        cdef AclRule *grown
        cdef int32_t at, capacity
        if pattern.count == pattern.capacity:
            capacity = pattern.capacity * 2 if pattern.capacity > 0 else 1
            grown = <AclRule *>realloc(pattern.rules, capacity * sizeof(AclRule))
            if grown == NULL:
                raise MemoryError
            pattern.rules = grown
            pattern.capacity = capacity
        at = first_of(pattern, rule.principal)
        memmove(&pattern.rules[at + 1], &pattern.rules[at], (pattern.count - at) * sizeof(AclRule))
        pattern.rules[at] = rule[0]
        pattern.count += 1
        self.rules.rule_count += 1
        return 0

    def add(self, tuple rule):
        """Adds a rule: resource type, pattern type, name, principal, host, operation, permission, with Kafka's
        numbers. A rule that was added before counts twice.

        Raises:
            MemoryError: The rules are as before.
        """
        cdef AclRule added
        cdef int8_t type = rule[0]
        cdef AclPattern *pattern
        cdef AclPrincipal *principal
        if not 0 <= type < ACL_TYPES:
            return                                       # of a later Kafka; nothing here has such a type
        memset(&added, 0, sizeof(AclRule))
        read_host(PyBytes_AS_STRING(rule[4]), <int32_t>PyBytes_GET_SIZE(rule[4]), &added.host)
        added.operation = rule[5]
        added.denies = rule[6] == PERMISSION_DENY
        pattern = self._pattern(type, rule[1] == PATTERN_PREFIXED, rule[2])
        principal = NULL
        try:
            principal = self._principal(rule[3])
            added.principal = principal.id
            self._insert(pattern, &added)
        except MemoryError:
            if principal != NULL:
                self._release(principal)
            if pattern.count == 0:
                self._drop(pattern)
            raise

    def remove(self, tuple rule):
        """Removes a rule that was added once. Without effect if it is unknown."""
        cdef AclRule wanted
        cdef int8_t type = rule[0]
        cdef bint prefixed = rule[1] == PATTERN_PREFIXED
        cdef bytes name = rule[2], principal_name = rule[3]
        cdef const uint8_t *data = <const uint8_t *>PyBytes_AS_STRING(name)
        cdef int32_t length = <int32_t>PyBytes_GET_SIZE(name), at
        cdef AclPattern *pattern
        cdef AclPrincipal *principal
        memset(&wanted, 0, sizeof(AclRule))
        read_host(PyBytes_AS_STRING(rule[4]), <int32_t>PyBytes_GET_SIZE(rule[4]), &wanted.host)
        wanted.operation = rule[5]
        wanted.denies = rule[6] == PERMISSION_DENY
        pattern = find_pattern(&self.rules, pattern_hash(walked(data, length), type, prefixed), type, prefixed, data,
                               length)
        data = <const uint8_t *>PyBytes_AS_STRING(principal_name)
        length = <int32_t>PyBytes_GET_SIZE(principal_name)
        principal = find_principal(&self.rules, mixed(walked(data, length)), data, length)
        if pattern == NULL or principal == NULL:
            return
        wanted.principal = principal.id
        at = first_of(pattern, principal.id)
        while at < pattern.count and pattern.rules[at].principal == principal.id:
            if memcmp(&pattern.rules[at], &wanted, sizeof(AclRule)) == 0:
                pattern.count -= 1
                memmove(&pattern.rules[at], &pattern.rules[at + 1], (pattern.count - at) * sizeof(AclRule))
                self.rules.rule_count -= 1
                self._release(principal)
                if pattern.count == 0:
                    self._drop(pattern)
                return
            at += 1

    # ------------------------------------------------------------ decisions

    def allows(self, bytes principal, bytes address, int8_t operation, int8_t type, bytes name):
        """Returns whether a principal may do an operation on a resource from an address."""
        cdef AclSubject subject
        acl_subject(&self.rules, <const uint8_t *>PyBytes_AS_STRING(principal), <int32_t>PyBytes_GET_SIZE(principal),
                    PyBytes_AS_STRING(address), &subject)
        return bool(acl_decide(&self.rules, &subject, operation, type, <const uint8_t *>PyBytes_AS_STRING(name),
                               <int32_t>PyBytes_GET_SIZE(name)))

    def allows_all(self, str principal not None, str peer not None, list asked not None):
        """Returns whether a principal may do several operations, all of them, from the address of a peer.

        Args:
            peer: ``host:port``.
            asked: ``[(operation, resource type, name)]``, the name as text.
        """
        cdef AclSubject subject
        cdef char host[HOST_BYTES_MAX]
        cdef Py_ssize_t length
        cdef const char *text = PyUnicode_AsUTF8AndSize(principal, &length)
        host_of(PyUnicode_AsUTF8AndSize(peer, NULL), host)
        acl_subject(&self.rules, <const uint8_t *>text, <int32_t>length, host, &subject)
        for operation, type, name in asked:
            text = PyUnicode_AsUTF8AndSize(<str?>name, &length)
            if not acl_decide(&self.rules, &subject, operation, type, <const uint8_t *>text, <int32_t>length):
                return False
        return True

    def allows_some(self, bytes principal, bytes address, int8_t operation, int8_t type):
        """Returns whether a principal may do an operation on any resource of a type from an address."""
        cdef AclSubject subject
        acl_subject(&self.rules, <const uint8_t *>PyBytes_AS_STRING(principal), <int32_t>PyBytes_GET_SIZE(principal),
                    PyBytes_AS_STRING(address), &subject)
        return bool(decide_some(&self.rules, &subject, operation, type))
