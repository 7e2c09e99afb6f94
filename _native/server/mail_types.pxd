"""What threads send to a reactor."""
from libc.stdint cimport int32_t, int64_t
from bowstring._native.base.pthread cimport pthread_mutex_t

cdef enum MailKind:
    MAIL_CONNECTION                 # a = fd, b = listener
    MAIL_REPLY                      # a = connection id, b = slot, data: chunk (NULL closes)
    MAIL_CLOSE                      # a = connection id
    MAIL_WAKE_FETCH                 # a = fetch id
    MAIL_ACK                        # data: ProducePart that the high watermark has passed
    MAIL_SLOW_BATCH                 # data: ProducePart, its entry replaced or its error set
    MAIL_FOLLOW                     # data: FollowOrder
    MAIL_TRUNCATED                  # data: TruncateJob that is done
    MAIL_STOP

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
