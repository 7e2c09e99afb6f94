"""What threads send to a reactor."""
from libc.stdint cimport int8_t, int32_t, int64_t
from bowstring._native.base.pthread cimport pthread_mutex_t

cdef enum MailKind:
    MAIL_CONNECTION                 # a = fd, b = listener, data: HostEntry
    MAIL_REPLY                      # a = connection id, b = slot, data: chunk (NULL closes)
    MAIL_SKIP                       # a = connection id, b = slot: the request gets no answer
    MAIL_MUTE                       # a = connection id, b = milliseconds
    MAIL_CLOSE                      # a = connection id
    MAIL_FINISH                     # a = connection id: it closes once its replies are sent
    MAIL_ADMIT                      # a = connection id, b = lifetime_ms, data: Admission
    MAIL_WAKE_FETCH                 # a = fetch id
    MAIL_ACK                        # data: ProducePart that the high watermark has passed
    MAIL_SLOW_BATCH                 # data: ProducePart, its entry replaced or its error set
    MAIL_FOLLOW                     # data: FollowOrder
    MAIL_TRUNCATED                  # data: TruncateJob that is done
    MAIL_LINK                       # data: FollowLink
    MAIL_LEASE                      # a = connection id, data: Lease, with the connection's reference
    MAIL_ACCESS                     # the rules of access control have changed
    MAIL_STOP

cdef struct Admission:
    # One block of memory, freed with free().
    int32_t length
    char principal[1]               # `length` bytes of UTF-8

cdef struct Mail:
    int32_t kind
    int64_t a
    int64_t b
    void *data

cdef struct Mailbox:
    pthread_mutex_t lock
    int event_fd
    Mail *mails
    int32_t count
    int32_t capacity
    int8_t held                     # the first mail is there, and nobody has woken the owner
