/* One datagram to the service manager (sd_notify(3)), without its library.
 *
 * Shard: any; does not block.
 */
#pragma once

#include "core/err.h"

/* socket_path: what NOTIFY_SOCKET says, a path or, with '@' in front, an abstract name; text:
 * "READY=1". ERR_INVALID for a path that cannot be one, ERR_IO if nobody takes it. */
enum err notify_send(const char *socket_path, const char *text);
