"""Fetches from leaders: one connection and one incremental fetch session for each fetcher. A fetcher belongs to a reactor.

It has one request in flight. The next one is sent at the end of the pass that appended the answer; in commit mode once
the batches are on the medium, because a follower's fetch offset says that it has everything below for good.
"""
from bowstring._native.server.connection_types cimport Connection
from bowstring._native.server.follow_types cimport FollowLink, FollowOrder
from bowstring._native.server.reactor_types cimport Reactor

# MAIL_FOLLOW. An order without a partition looks at all fetchers: some parts are over.
cdef void fetchers_order(Reactor *r, FollowOrder *order) noexcept nogil
# MAIL_LINK: the control thread's answer to a Dial. Takes ownership.
cdef void fetcher_linked(Reactor *r, FollowLink *link) noexcept nogil
# Closes its socket and frees it; NULL is allowed.
cdef void link_drop(FollowLink *link) noexcept nogil
# Answers have arrived on a connection of a fetcher.
cdef void fetcher_received(Reactor *r, Connection *c) noexcept nogil
# Such a connection is being closed.
cdef void fetcher_disconnected(Connection *c) noexcept nogil
# Sends the requests that are due, and sets Reactor.follow_due_ms.
cdef void fetchers_run(Reactor *r) noexcept nogil
cdef void fetchers_free(Reactor *r) noexcept nogil
