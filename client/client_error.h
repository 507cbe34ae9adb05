/* Error codes of the protocol as this library says them: our list and words for people.
 *
 * Pure; any thread.
 */
#pragma once

#include <stdint.h>

#include "core/err.h"

/* ERR_OK only for code 0; ERR_FAILED for what has no name of its own here. */
enum err client_err_of(int16_t code);

/* What it means, for a line that starts with what was tried: "the topic does not exist". For codes
 * without words here their name. Never NULL. */
const char *client_error_text(int16_t code);
