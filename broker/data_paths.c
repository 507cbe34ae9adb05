#include "broker/data_paths.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What path really names: of what does not exist yet, its parent's real name and the last part. As
 * it is, where not even that exists: then it is refused later. NULL without memory. */
static char *resolve(const char *path)
{
    char *real = realpath(path, NULL);
    if (real != NULL) {
        return real;
    }
    char *copy = strdup(path);
    if (copy == NULL) {
        return NULL;
    }
    for (size_t size = strlen(copy); size > 1 && copy[size - 1] == '/'; size--) {
        copy[size - 1] = '\0';
    }
    char *slash = strrchr(copy, '/');
    const char *name = slash == NULL ? copy : slash + 1;
    if (slash != NULL) {
        *slash = '\0';
    }
    char *parent = realpath(slash == NULL ? "." : slash == copy ? "/" : copy, NULL);
    if (parent == NULL) {
        if (slash != NULL) {
            *slash = '/';
        }
        return copy;
    }
    char *joined = NULL;
    const char *separator = strcmp(parent, "/") == 0 ? "" : "/";
    if (asprintf(&joined, "%s%s%s", parent, separator, name) < 0) {
        joined = NULL;
    }
    free(parent);
    free(copy);
    return joined;
}

static bool is_inside(const char *inner, const char *outer)
{
    const size_t size = strlen(outer);
    return strncmp(inner, outer, size) == 0 &&
           (inner[size] == '/' || (size == 1 && outer[0] == '/'));
}

static enum err check_pair(const char *const *paths,
                           char *const *real,
                           uint32_t a,
                           uint32_t b,
                           char why[DATA_PATHS_WHY_SIZE])
{
    if (strcmp(real[a], real[b]) == 0) {
        (void)snprintf(why,
                       DATA_PATHS_WHY_SIZE,
                       "data directory %.200s is given twice (as %.200s too): name each once",
                       paths[b],
                       paths[a]);
        return ERR_INVALID;
    }
    const bool is_a_inside = is_inside(real[a], real[b]);
    if (is_a_inside || is_inside(real[b], real[a])) {
        (void)snprintf(why,
                       DATA_PATHS_WHY_SIZE,
                       "data directory %.200s lies inside of data directory %.200s: give each its "
                       "own place",
                       paths[is_a_inside ? a : b],
                       paths[is_a_inside ? b : a]);
        return ERR_INVALID;
    }
    return ERR_OK;
}

static enum err check_pairs(const char *const *paths,
                            char *const *real,
                            uint32_t count,
                            char why[DATA_PATHS_WHY_SIZE])
{
    enum err e = ERR_OK;
    for (uint32_t b = 0; b < count && e == ERR_OK; b++) {
        for (uint32_t a = 0; a < b && e == ERR_OK; a++) {
            e = check_pair(paths, real, a, b, why);
        }
    }
    return e;
}

enum err data_paths_check(const char *const *paths, uint32_t count, char why[DATA_PATHS_WHY_SIZE])
{
    char **real = calloc(count, sizeof(*real));
    enum err e = real == NULL ? ERR_BUSY : ERR_OK;
    for (uint32_t i = 0; i < count && e == ERR_OK; i++) {
        real[i] = resolve(paths[i]);
        e = real[i] == NULL ? ERR_BUSY : ERR_OK;
    }
    if (e == ERR_OK) {
        e = check_pairs(paths, real, count, why);
    } else {
        (void)snprintf(why, DATA_PATHS_WHY_SIZE, "out of memory");
    }
    for (uint32_t i = 0; i < count && real != NULL; i++) {
        free(real[i]);
    }
    free(real);
    return e;
}
