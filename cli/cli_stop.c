#include "cli/cli_stop.h"

#include <signal.h>
#include <stddef.h>
#include <sys/signalfd.h>
#include <unistd.h>

int cli_stop_hear(void)
{
    static const int all[] = {SIGINT, SIGTERM, SIGHUP};
    sigset_t stops;
    (void)sigemptyset(&stops);
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        struct sigaction action;
        if (sigaction(all[i], NULL, &action) == 0 && action.sa_handler != SIG_IGN) {
            (void)sigaddset(&stops, all[i]);
        }
    }
    if (sigprocmask(SIG_BLOCK, &stops, NULL) != 0) {
        return -1;
    }
    return signalfd(-1, &stops, SFD_CLOEXEC | SFD_NONBLOCK);
}

bool cli_stop_take(int stop_fd)
{
    struct signalfd_siginfo info;
    return stop_fd >= 0 && read(stop_fd, &info, sizeof(info)) > 0;
}
