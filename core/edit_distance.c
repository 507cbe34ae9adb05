#include "core/edit_distance.h"

#include <string.h>

enum {
    ROW_MAX = 127,
};

size_t edit_distance(const char *a, const char *b)
{
    size_t row[ROW_MAX + 1];
    size_t b_size = strnlen(b, ROW_MAX);
    for (size_t j = 0; j <= b_size; j++) {
        row[j] = j;
    }
    for (size_t i = 0; a[i] != '\0' && i < ROW_MAX; i++) {
        size_t diagonal = row[0];
        row[0] = i + 1;
        for (size_t j = 0; j < b_size; j++) {
            size_t best = diagonal + (a[i] == b[j] ? 0 : 1);
            best = row[j] + 1 < best ? row[j] + 1 : best;
            best = row[j + 1] + 1 < best ? row[j + 1] + 1 : best;
            diagonal = row[j + 1];
            row[j + 1] = best;
        }
    }
    return row[b_size];
}
