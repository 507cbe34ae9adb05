#include "broker/data_paths.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What part names below parent. NULL without memory. */
static char *below(const char *parent, const char *part)
{
    if (strcmp(part, ".") == 0) {
        return strdup(parent);
    }
    if (strcmp(part, "..") == 0) {
        const char *slash = strrchr(parent, '/');
        return slash == NULL || slash == parent ? strdup("/")
                                                : strndup(parent, (size_t)(slash - parent));
    }
    char *joined = NULL;
    const char *separator = strcmp(parent, "/") == 0 ? "" : "/";
    return asprintf(&joined, "%s%s%s", parent, separator, part) < 0 ? NULL : joined;
}

/* The real name of what the first size bytes of path name; of nothing: where it begins. NULL if it
 * does not exist, or without memory. */
static char *real_head(const char *path, size_t size)
{
    char *head = size > 0 ? strndup(path, size) : strdup(path[0] == '/' ? "/" : ".");
    char *real = head == NULL ? NULL : realpath(head, NULL);
    free(head);
    return real;
}

/* What path really names, or will name. Nothing of it needs to exist yet: a directory of the list
 * may be the parent of the next. So the longest head that exists is resolved, and what follows,
 * which can hold no links, is appended. NULL without memory, or without a current directory. */
static char *resolve(const char *path)
{
    size_t size = strlen(path);
    char *real = real_head(path, size);
    while (real == NULL && size > 0) {
        size--;
        while (size > 0 && path[size] != '/') {
            size--;
        }
        real = real_head(path, size);
    }
    char *rest = strdup(path + size);
    char *at = NULL;
    const char *part = rest == NULL ? NULL : strtok_r(rest, "/", &at);
    for (; part != NULL && real != NULL; part = strtok_r(NULL, "/", &at)) {
        char *longer = below(real, part);
        free(real);
        real = longer;
    }
    if (rest == NULL) {
        free(real);
        real = NULL;
    }
    free(rest);
    return real;
}

char *data_paths_absolute(const char **paths, uint32_t count)
{
    char *here = realpath(".", NULL);
    char *all = NULL;
    size_t size = 0;
    FILE *out = here == NULL ? NULL : open_memstream(&all, &size);
    for (uint32_t i = 0; i < count && out != NULL; i++) {
        (void)fprintf(
            out, "%s%s%s", paths[i][0] == '/' ? "" : here, paths[i][0] == '/' ? "" : "/", paths[i]);
        (void)fputc('\0', out);
    }
    free(here);
    if (out == NULL || fclose(out) != 0) {
        free(all);
        return NULL;
    }
    const char *path = all;
    for (uint32_t i = 0; i < count; i++) {
        paths[i] = path;
        path += strlen(path) + 1;
    }
    return all;
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
