#include "client/client.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/client_priv.h"
#include "core/assert.h"

enum {
    TIMEOUT_MS_DEFAULT = 30000,
    BUFFER_SIZE_DEFAULT = 32 << 20,
};

/* What went wrong last for one thread. */
struct client_why_line {
    struct list link; /* client.whys */
    struct client *client;
    char text[CLIENT_WHY_SIZE];
};

/* A thread ends: its line goes. */
static void drop_line(void *value)
{
    struct client_why_line *line = value;
    struct client *c = line->client;
    client_lock(c);
    list_remove(&line->link);
    client_unlock(c);
    free(line);
}

/* Without the lock. */
static char *line_of(struct client *c)
{
    struct client_why_line *line = pthread_getspecific(c->why_key);
    if (line != NULL) {
        return line->text;
    }
    line = calloc(1, sizeof(*line));
    if (line == NULL || pthread_setspecific(c->why_key, line) != 0) {
        free(line);
        return c->why_spare;
    }
    line->client = c;
    client_lock(c);
    list_push_back(&c->whys, &line->link);
    client_unlock(c);
    return line->text;
}

enum err client_fail(struct client *c, enum err e, const char *format, ...)
{
    char line[CLIENT_WHY_SIZE];
    va_list arguments;
    va_start(arguments, format);
    client_format_line(line, format, arguments);
    va_end(arguments);
    memcpy(line_of(c), line, sizeof(line));
    return e;
}

const char *client_why(const struct client *c)
{
    const struct client_why_line *line = pthread_getspecific(c->why_key);
    return line != NULL ? line->text : c->why_spare;
}

static size_t count_items(const char *list)
{
    size_t count = 1;
    for (const char *p = list; *p != '\0'; p++) {
        count += *p == ',';
    }
    return count;
}

/* brokers: HOST:PORT,HOST:PORT */
static enum err parse_brokers(struct client *c, const char *brokers, char why[CLIENT_WHY_SIZE])
{
    c->bootstrap = calloc(count_items(brokers), sizeof(*c->bootstrap));
    if (c->bootstrap == NULL) {
        return client_say(why, ERR_BUSY, "no memory for the list of brokers");
    }
    for (const char *item = brokers;;) {
        const size_t size = strcspn(item, ",");
        struct client_address *a = &c->bootstrap[c->bootstrap_count];
        if (!client_address_parse(slice_of(item, size), a)) {
            return client_say(why,
                              ERR_INVALID,
                              "'%.*s' is not the address of a broker: HOST:PORT is",
                              (int)(size > 64 ? 64 : size),
                              item);
        }
        c->bootstrap_count++;
        if (item[size] == '\0') {
            return ERR_OK;
        }
        item += size + 1;
    }
}

static void init_lists(struct client *c)
{
    list_init(&c->whys);
    list_init(&c->waiters);
    list_init(&c->links);
    list_init(&c->finished);
    list_init(&c->seeking);
    list_init(&c->topics);
    list_init(&c->producers);
    list_init(&c->deliveries);
    list_init(&c->consumers);
    list_init(&c->members);
}

static bool init_threads(struct client *c)
{
    if (pthread_mutex_init(&c->lock, NULL) != 0) {
        return false;
    }
    if (pthread_cond_init(&c->changed, NULL) != 0) {
        (void)pthread_mutex_destroy(&c->lock);
        return false;
    }
    if (pthread_key_create(&c->why_key, drop_line) != 0) {
        (void)pthread_cond_destroy(&c->changed);
        (void)pthread_mutex_destroy(&c->lock);
        return false;
    }
    return true;
}

enum err client_new_in(const struct client_options *options,
                       struct client_env *env,
                       char ret_why[CLIENT_WHY_SIZE],
                       struct client **ret_client)
{
    assert(options->brokers != NULL);
    struct client *c = calloc(1, sizeof(*c));
    if (c == NULL || !init_threads(c)) {
        free(c);
        return client_say(ret_why, ERR_BUSY, "no memory for a client");
    }
    init_lists(c);
    clock_init_real(&c->clock);
    rand_init_real(&c->rand);
    client_env_init(&c->own_env, &c->clock, &c->rand);
    c->env = env != NULL ? env : &c->own_env;
    c->wake_fd = -1;
    c->timeout_ms = options->timeout_ms != 0 ? options->timeout_ms : TIMEOUT_MS_DEFAULT;
    c->buffer_size_max = options->buffer_size != 0 ? options->buffer_size : BUFFER_SIZE_DEFAULT;
    c->client_id = strdup(options->client_id != NULL ? options->client_id : "coreflume");
    enum err e = c->client_id == NULL || !client_reserve_fds(c)
                     ? client_say(ret_why, ERR_BUSY, "no memory for a client")
                     : parse_brokers(c, options->brokers, ret_why);
    if (e == ERR_OK && env == NULL) {
        e = client_start(c, ret_why);
    }
    if (e != ERR_OK) {
        client_free(c);
        return e;
    }
    *ret_client = c;
    return ERR_OK;
}

enum err client_new(const struct client_options *options,
                    char ret_why[CLIENT_WHY_SIZE],
                    struct client **ret_client)
{
    return client_new_in(options, NULL, ret_why, ret_client);
}

/* Calls that were on their way are over; whoever posted them frees what is his. */
static void end_calls(struct client *c)
{
    client_lock(c);
    client_links_drop(c, NULL);
    while (!list_is_empty(&c->seeking)) {
        struct list *node = list_pop_front(&c->seeking);
        container_of(node, struct client_call, link)->err = ERR_CANCELLED;
        list_push_back(&c->finished, node);
    }
    client_finish_calls(c);
    client_topics_stop(c);
    client_unlock(c);
}

void client_free(struct client *c)
{
    if (c == NULL) {
        return;
    }
    assert(list_is_empty(&c->producers));
    assert(list_is_empty(&c->members));
    assert(list_is_empty(&c->consumers));
    client_stop(c);
    end_calls(c);
    (void)pthread_key_delete(c->why_key);
    while (!list_is_empty(&c->whys)) {
        free(container_of(list_pop_front(&c->whys), struct client_why_line, link));
    }
    (void)pthread_cond_destroy(&c->changed);
    (void)pthread_mutex_destroy(&c->lock);
    if (c->wake_fd != -1) {
        (void)close(c->wake_fd);
    }
    free(c->fds);
    free(c->nodes);
    free(c->bootstrap);
    free(c->client_id);
    free(c);
}

bool client_was_connected(struct client *c)
{
    client_lock(c);
    const bool was_connected = c->was_connected;
    client_unlock(c);
    return was_connected;
}
