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
#include <stdio.h>
#include <string.h>

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
