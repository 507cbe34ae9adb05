/* Commands of group 0 (cluster/commands.h) and the engine that applies them (cluster/controller.h):
 * any bytes are refused or applied; what was decoded encodes to the same bytes; the engine's
 * invariants hold after each; a snapshot of any state rebuilds it.
 *
 * The input is a stream of commands.
 */
#include <stdlib.h>

#include "cluster/controller.h"
#include "core/assert.h"

#include "tests/fuzz/fuzz.h"

static void encode_again(struct slice bytes, const struct command *command)
{
    struct wbuf w;
    wbuf_init(&w, COMMAND_SIZE_MAX);
    command_encode(command, &w);
    struct command again;
    enum err e = command_decode(wbuf_slice(&w), &again);
    assert_cmp(e, ==, ERR_OK);
    assert_cmp(again.kind, ==, command->kind);
    assert_cmp(w.size, <=, bytes.size); /* Shorter where a size was written long. */
    wbuf_done(&w);
}

static void rebuild(const struct cluster_settings *settings, const struct controller *ct)
{
    struct wbuf first;
    struct wbuf second;
    wbuf_init(&first, SIZE_MAX);
    wbuf_init(&second, SIZE_MAX);
    controller_snapshot(ct, &first);
    struct controller *copy = controller_new(settings, 2);
    struct rbuf stream = rbuf_over(first.data, first.size);
    struct slice bytes;
    while (command_stream_next(&stream, &bytes) == ERR_OK) {
        enum err e = controller_apply(copy, bytes);
        assert_cmp(e, ==, ERR_OK);
    }
    controller_snapshot(copy, &second);
    assert(slice_equal(wbuf_slice(&first), wbuf_slice(&second)));
    controller_free(copy);
    wbuf_done(&first);
    wbuf_done(&second);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct cluster_settings settings;
    cluster_settings_init(&settings);
    struct controller *ct = controller_new(&settings, 1);
    struct rbuf stream = rbuf_over(data, size);
    struct slice bytes;
    while (command_stream_next(&stream, &bytes) == ERR_OK) {
        struct command command;
        if (command_decode(bytes, &command) == ERR_OK) {
            encode_again(bytes, &command);
        }
        (void)controller_apply(ct, bytes);
        controller_check(ct);
    }
    rebuild(&settings, ct);
    controller_free(ct);
    return 0;
}
