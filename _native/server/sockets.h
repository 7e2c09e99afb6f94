/* System calls of connections that are shorter in C than in Cython. */
#pragma once
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void name_peer(int fd, char *out, size_t size) {
    struct sockaddr_storage a;
    socklen_t n = sizeof a;
    char host[INET6_ADDRSTRLEN] = "?";
    int port = 0;
    if (getpeername(fd, (struct sockaddr *)&a, &n) == 0) {
        if (a.ss_family == AF_INET) {
            struct sockaddr_in *v4 = (struct sockaddr_in *)&a;
            inet_ntop(AF_INET, &v4->sin_addr, host, sizeof host);
            port = ntohs(v4->sin_port);
        } else if (a.ss_family == AF_INET6) {
            struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&a;
            inet_ntop(AF_INET6, &v6->sin6_addr, host, sizeof host);
            port = ntohs(v6->sin6_port);
        }
    }
    snprintf(out, size, "%s:%d", host, port);
}
/* Begins to connect to a numeric address. Returns the socket, or a negated errno. */
static int connect_to(const char *host, int port) {
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
    int is_v6, fd;
    memset(&v4, 0, sizeof v4);
    memset(&v6, 0, sizeof v6);
    is_v6 = inet_pton(AF_INET6, host, &v6.sin6_addr) == 1;
    if (!is_v6 && inet_pton(AF_INET, host, &v4.sin_addr) != 1)
        return -EINVAL;
    v4.sin_family = AF_INET;
    v6.sin6_family = AF_INET6;
    v4.sin_port = v6.sin6_port = htons((uint16_t)port);
    fd = socket(is_v6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    if (connect(fd, is_v6 ? (struct sockaddr *)&v6 : (struct sockaddr *)&v4, is_v6 ? sizeof v6 : sizeof v4) == 0
        || errno == EINPROGRESS)
        return fd;
    is_v6 = errno;
    close(fd);
    return -is_v6;
}
static void set_nodelay(int fd) {
    int one = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
}
static int epoll_set(int epoll_fd, int op, int fd, uint32_t events, void *item) {
    struct epoll_event e;
    e.events = events;
    e.data.ptr = item;
    return epoll_ctl(epoll_fd, op, fd, &e);
}

/* Whether there is something to do for another than `item`. A later epoll_wait reports it again. */
static int others_wait(int epoll_fd, const void *item) {
    struct epoll_event events[2];
    int n = epoll_wait(epoll_fd, events, 2, 0);
    return n > 1 || (n == 1 && events[0].data.ptr != item);
}
static void clear_message(struct msghdr *m) { memset(m, 0, sizeof *m); }
