#include "core/err.h"

#include <stddef.h>

const char *err_name(enum err e)
{
    static const char *const names[ERR_COUNT] = {
#define ERR_NAME(name) [ERR_##name] = #name,
        ERR_TABLE(ERR_NAME)
#undef ERR_NAME
    };
    if ((unsigned)e >= ERR_COUNT) {
        return "UNKNOWN";
    }
    return names[e];
}
