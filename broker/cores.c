#include "broker/cores.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/assert.h"
#include "core/thread.h"

static bool may_use(int cpu)
{
    int cpus[SHARDS_MAX];
    const int count = thread_cpus(cpus, SHARDS_MAX);
    for (int i = 0; i < count; i++) {
        if (cpus[i] == cpu) {
            return true;
        }
    }
    return false;
}

static bool has(const struct cores *cores, int cpu)
{
    for (uint16_t i = 0; i < cores->count; i++) {
        if (cores->cpus[i] == cpu) {
            return true;
        }
    }
    return false;
}

/* A number and what follows it; false if there is none, or one no CPU has. */
static bool read_number(const char **text, int *ret_number)
{
    if (**text < '0' || **text > '9') {
        return false;
    }
    char *end = NULL;
    const long number = strtol(*text, &end, 10);
    if (number > 65535) {
        return false;
    }
    *text = end;
    *ret_number = (int)number;
    return true;
}

static enum err add_range(struct cores *cores, int first, int last, char why[CORES_WHY_SIZE])
{
    for (int cpu = first; cpu <= last; cpu++) {
        if (!may_use(cpu)) {
            (void)snprintf(why,
                           CORES_WHY_SIZE,
                           "cores: this process may not use CPU %d; choose others, or 'all'",
                           cpu);
            return ERR_CONFIG_INVALID;
        }
        if (has(cores, cpu) || cores->count == SHARDS_MAX) {
            (void)snprintf(why,
                           CORES_WHY_SIZE,
                           "cores: CPU %d is named twice, or there are more than %d",
                           cpu,
                           SHARDS_MAX);
            return ERR_CONFIG_INVALID;
        }
        cores->cpus[cores->count++] = cpu;
    }
    return ERR_OK;
}

static enum err read_list(struct cores *cores, const char *text, char why[CORES_WHY_SIZE])
{
    const char *at = text;
    for (;;) {
        int first = 0;
        bool is_valid = read_number(&at, &first);
        int last = first;
        if (is_valid && *at == '-') {
            at++;
            is_valid = read_number(&at, &last) && first <= last;
        }
        if (!is_valid || (*at != ',' && *at != '\0')) {
            (void)snprintf(
                why, CORES_WHY_SIZE, "cores: '%.64s' is not of the form 0-3,6, nor 'all'", text);
            return ERR_CONFIG_INVALID;
        }
        enum err e = add_range(cores, first, last, why);
        if (e != ERR_OK || *at == '\0') {
            return e;
        }
        at++;
    }
}

enum err cores_choose(struct cores *cores, const char *text, char why[CORES_WHY_SIZE])
{
    cores->count = 0;
    if (strcmp(text, "all") != 0) {
        return read_list(cores, text, why);
    }
    const int count = thread_cpus(cores->cpus, SHARDS_MAX);
    if (count == 0) {
        (void)snprintf(why, CORES_WHY_SIZE, "cores: the kernel does not tell; name them (0-3)");
        return ERR_CONFIG_INVALID;
    }
    cores->count = (uint16_t)count;
    return ERR_OK;
}

static uint64_t machine_memory_size(void)
{
    const long pages = sysconf(_SC_PHYS_PAGES);
    const long page_size = sysconf(_SC_PAGESIZE);
    return pages > 0 && page_size > 0 ? (uint64_t)pages * (uint64_t)page_size : 0;
}

enum err memory_per_shard(uint64_t asked_size,
                          uint16_t shards_count,
                          size_t *ret_size,
                          char why[CORES_WHY_SIZE])
{
    assert_cmp(shards_count, >, 0);
    const uint64_t machine_size = machine_memory_size();
    uint64_t total_size = asked_size;
    if (total_size == 0) {
        total_size = (uint64_t)MEMORY_PER_SHARD_DEFAULT * shards_count;
        if (total_size > machine_size / 4) {
            total_size = machine_size / 4;
        }
    }
    if (total_size > machine_size) {
        (void)snprintf(why,
                       CORES_WHY_SIZE,
                       "memory: %llu MiB asked for, the machine has %llu MiB: lower --memory",
                       (unsigned long long)total_size >> 20,
                       (unsigned long long)machine_size >> 20);
        return ERR_CONFIG_INVALID;
    }
    const uint64_t share = total_size / shards_count;
    if (share < MEMORY_PER_SHARD_MIN) {
        (void)snprintf(why,
                       CORES_WHY_SIZE,
                       "memory: %llu MiB for %u cores is less than %d MiB each: raise --memory, or "
                       "use fewer --cores",
                       (unsigned long long)total_size >> 20,
                       shards_count,
                       MEMORY_PER_SHARD_MIN >> 20);
        return ERR_CONFIG_INVALID;
    }
    size_t size = MEMORY_PER_SHARD_MIN;
    while (size * 2 <= share) {
        size *= 2;
    }
    *ret_size = size;
    return ERR_OK;
}
