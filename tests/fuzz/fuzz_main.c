/* Replays a corpus as a plain test, without libFuzzer: every file named, and every file in the
 * directories named, goes through the fuzzer's entry point once.
 */
#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "tests/fuzz/fuzz.h"

enum {
    INPUT_SIZE_MAX = 1 << 20,
    PATH_SIZE_MAX = 4096,
};

/* False if the file cannot be read whole. The memory handed over ends where the input does, so
 * that a sanitizer sees a read past it. */
static bool replay_file(const char *path, size_t size)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        return false;
    }
    uint8_t *data = malloc(size > 0 ? size : 1);
    const bool is_read = data != NULL && fread(data, 1, size, file) == size;
    if (is_read) {
        (void)LLVMFuzzerTestOneInput(data, size);
    }
    free(data);
    (void)fclose(file);
    return is_read;
}

static int replay(const char *path, int *count)
{
    struct stat info;
    if (stat(path, &info) != 0) {
        (void)fprintf(stderr, "no such file: %s\n", path);
        return 1;
    }
    if (!S_ISDIR(info.st_mode)) {
        (*count)++;
        if (info.st_size > INPUT_SIZE_MAX || !replay_file(path, (size_t)info.st_size)) {
            (void)fprintf(stderr, "cannot replay: %s\n", path);
            return 1;
        }
        return 0;
    }
    DIR *directory = opendir(path);
    if (directory == NULL) {
        return 1;
    }
    int failed = 0;
    const struct dirent *entry = NULL;
    while ((entry = readdir(directory)) != NULL) {
        char inner[PATH_SIZE_MAX];
        if (entry->d_name[0] == '.') {
            continue;
        }
        const int size = snprintf(inner, sizeof(inner), "%s/%s", path, entry->d_name);
        failed += size < PATH_SIZE_MAX ? replay(inner, count) : 1;
    }
    (void)closedir(directory);
    return failed;
}

int main(int argc, char **argv)
{
    int failed = 0;
    int count = 0;
    for (int i = 1; i < argc; i++) {
        failed += replay(argv[i], &count);
    }
    (void)printf("%d inputs replayed, %d unreadable\n", count, failed);
    return count == 0 || failed > 0 ? 1 : 0;
}
