/* The headers in front of request and response bodies, and the choice of their version.
 *
 * A frame's length prefix is net's; what is here starts behind it. The client id has the old int16
 * length in every header version. Responses to ApiVersions never have a tagged section, so that a
 * client of any age can read them.
 *
 * Shard: any; owns nothing.
 */
#pragma once

#include <stdint.h>

#include "core/err.h"
#include "core/rbuf.h"
#include "core/slice.h"
#include "core/wbuf.h"

struct request_header {
    int16_t api_key;
    int16_t api_version;
    int32_t correlation_id;
    struct slice client_id; /* Points into the frame; null if the client sent null. */
};

/* Reads the header and leaves the cursor at the body. The version is not checked here: whoever
 * dispatches compares it with what is served (and answers any version of ApiVersions; of one newer
 * than we know only the fixed part of the header is read, since the body must not be parsed).
 *   ERR_UNSUPPORTED  unknown api key: close without an answer
 *   ERR_EOF, ERR_CORRUPT  damaged
 */
enum err request_header_decode(struct rbuf *frame, struct request_header *ret_header);

/* For clients. ERR_UNSUPPORTED for a key that is not known. */
enum err request_header_encode(struct wbuf *w, const struct request_header *header);

/* ERR_UNSUPPORTED for a key that is not known. */
enum err response_header_encode(struct wbuf *w,
                                int16_t api_key,
                                int16_t api_version,
                                int32_t correlation_id);

/* For clients: key and version are those of the request, which the correlation id finds; so the id
 * is read first, with the cursor of a copy (response_correlation_id), then the header is passed. */
enum err response_header_decode(struct rbuf *frame,
                                int16_t api_key,
                                int16_t api_version,
                                int32_t *ret_correlation_id);

/* The first field of every response; moves nothing. ERR_EOF if the frame is too short. */
enum err response_correlation_id(const struct rbuf *frame, int32_t *ret_correlation_id);
