/* The least that a proxy can cost: bytes of each TCP client pass to a Unix socket and back, one recv and one
 * send for each message and one epoll_wait for all that is there, and nothing else is done with them.
 *
 *     cc -O2 -o forward forward.c && ./forward 16432 /tmp/.s.PGSQL.5432
 *
 * It ends with a client that has gone, and at errors: this measures, and serves nobody. */
#define _GNU_SOURCE
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { MOST = 4096 };

static int peers[MOST];
static char room[64 << 10];

static int checked(int code, const char *what) {
    if (code < 0) {
        perror(what);
        exit(1);
    }
    return code;
}

static void watch(int epoll, int file) {
    struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.fd = file};
    checked(epoll_ctl(epoll, EPOLL_CTL_ADD, file, &event), "epoll_ctl");
}

static void join(int epoll, int client, const struct sockaddr_un *address) {
    int on = 1, server = checked(socket(AF_UNIX, SOCK_STREAM, 0), "socket");
    checked(connect(server, (const struct sockaddr *)address, sizeof *address), "connect");
    setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (client >= MOST || server >= MOST) exit(1);
    peers[client] = server;
    peers[server] = client;
    watch(epoll, client);
    watch(epoll, server);
}

static void part(int file) {
    int peer = peers[file];
    peers[file] = peers[peer] = 0;
    close(file);
    close(peer);
}

int main(int count, char **words) {
    if (count != 3) return 2;
    struct sockaddr_in place = {.sin_family = AF_INET, .sin_port = htons(atoi(words[1]))};
    place.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    strncpy(address.sun_path, words[2], sizeof address.sun_path - 1);
    int on = 1, listener = checked(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), "socket");
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    checked(bind(listener, (struct sockaddr *)&place, sizeof place), "bind");
    checked(listen(listener, 128), "listen");
    int epoll = checked(epoll_create1(0), "epoll_create1");
    watch(epoll, listener);
    for (;;) {
        struct epoll_event events[256];
        int ready = epoll_wait(epoll, events, 256, -1);
        for (int i = 0; i < ready; i++) {
            int file = events[i].data.fd;
            if (file == listener) {
                for (int client; (client = accept4(listener, NULL, NULL, SOCK_NONBLOCK)) >= 0;)
                    join(epoll, client, &address);
            } else if (peers[file]) {
                ssize_t length = recv(file, room, sizeof room, MSG_DONTWAIT);
                if (length > 0)
                    send(peers[file], room, length, MSG_NOSIGNAL);
                else
                    part(file);
            }
        }
    }
}
