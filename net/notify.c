#include "net/notify.h"

#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum err notify_send(const char *socket_path, const char *text)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const size_t path_size = strlen(socket_path);
    if (path_size < 2 || path_size >= sizeof(address.sun_path) ||
        (socket_path[0] != '/' && socket_path[0] != '@')) {
        return ERR_INVALID;
    }
    memcpy(address.sun_path, socket_path, path_size);
    if (socket_path[0] == '@') {
        address.sun_path[0] = '\0'; /* The kernel's form of an abstract name. */
    }
    const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd == -1) {
        return ERR_IO;
    }
    const size_t address_size = offsetof(struct sockaddr_un, sun_path) + path_size;
    const ssize_t sent = sendto(fd,
                                text,
                                strlen(text),
                                MSG_NOSIGNAL,
                                (const struct sockaddr *)&address,
                                (socklen_t)address_size);
    (void)close(fd);
    return sent >= 0 ? ERR_OK : ERR_IO;
}
