/* What altering makes of a topic's configurations: operations one by one, lists, replacing. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>
#include <string.h>

#include "cluster/config_change.h"

enum { TEXT_SIZE = 256 };

struct step {
    enum config_operation operation;
    const char *name;
    const char *value;
};

struct altering {
    const char *what;
    bool is_replacing;
    struct step steps[3];
    enum err wanted_error;
    const char *wanted; /* name=value; in order */
};

/* On top of retention.ms=5 and cleanup.policy=compact. */
static const struct altering alterings[] = {
    {"nothing", false, {{0}}, ERR_OK, "retention.ms=5;cleanup.policy=compact;"},
    {"replaced by nothing", true, {{0}}, ERR_OK, ""},
    {"replaced", true, {{CONFIG_SET, "segment.ms", "7"}}, ERR_OK, "segment.ms=7;"},
    {"set anew",
     false,
     {{CONFIG_SET, "retention.ms", " 6 "}},
     ERR_OK,
     "retention.ms= 6 ;cleanup.policy=compact;"},
    {"deleted",
     false,
     {{CONFIG_DELETE, "retention.ms", NULL}, {CONFIG_DELETE, "no.such", NULL}},
     ERR_OK,
     "cleanup.policy=compact;"},
    {"appended",
     false,
     {{CONFIG_APPEND, "cleanup.policy", " delete , compact,delete"}},
     ERR_OK,
     "retention.ms=5;cleanup.policy=compact,delete;"},
    {"appended to the default",
     true,
     {{CONFIG_APPEND, "cleanup.policy", "compact"}},
     ERR_OK,
     "cleanup.policy=delete,compact;"},
    {"nothing appended",
     false,
     {{CONFIG_APPEND, "cleanup.policy", ""}},
     ERR_OK,
     "retention.ms=5;cleanup.policy=compact;"},
    {"subtracted, all of it",
     false,
     {{CONFIG_SUBTRACT, "cleanup.policy", "compact,delete"}},
     ERR_OK,
     "retention.ms=5;cleanup.policy=;"},
    {"not a list", false, {{CONFIG_APPEND, "retention.ms", "5"}}, ERR_CONFIG_INVALID, NULL},
    {"unknown", false, {{CONFIG_SET, "no.such", "5"}}, ERR_CONFIG_INVALID, NULL},
    {"unknown list", false, {{CONFIG_APPEND, "no.such", "5"}}, ERR_CONFIG_INVALID, NULL},
    {"null", false, {{CONFIG_SET, "retention.ms", NULL}}, ERR_CONFIG_INVALID, NULL},
    {"bad member", false, {{CONFIG_APPEND, "cleanup.policy", "x"}}, ERR_CONFIG_INVALID, NULL},
    {"no operation", false, {{9, "retention.ms", "5"}}, ERR_CONFIG_INVALID, NULL},
};

static uint32_t take_steps(const struct altering *a, struct config_change *changes)
{
    uint32_t count = 0;
    while (count < 3 && a->steps[count].name != NULL) {
        const struct step *s = &a->steps[count];
        changes[count++] = (struct config_change){
            .operation = s->operation,
            .name = slice_of_string(s->name),
            .value = s->value == NULL ? (struct slice){0} : slice_of_string(s->value),
        };
    }
    return count;
}

Test(config_change, table)
{
    char retention[] = "retention.ms";
    char five[] = "5";
    char policy[] = "cleanup.policy";
    char compact[] = "compact";
    const struct topic_config_entry before[] = {{retention, five}, {policy, compact}};
    for (size_t i = 0; i < sizeof(alterings) / sizeof(alterings[0]); i++) {
        const struct altering *a = &alterings[i];
        struct config_change changes[3];
        const struct config_changes all = {
            .is_replacing = a->is_replacing,
            .changes = changes,
            .count = take_steps(a, changes),
        };
        struct config_list list;
        char why[TOPIC_CONFIG_WHY_SIZE] = "";
        config_list_copy(&list, before, 2);
        cr_assert(eq(int, config_list_change(&list, &all, why), a->wanted_error), "%s", a->what);
        if (a->wanted_error != ERR_OK) {
            cr_assert(ne(int, why[0], '\0'), "%s", a->what);
        } else {
            char text[TEXT_SIZE] = "";
            for (uint32_t j = 0; j < list.count; j++) {
                const size_t used = strlen(text);
                (void)snprintf(text + used,
                               sizeof(text) - used,
                               "%s=%s;",
                               list.entries[j].name,
                               list.entries[j].value);
            }
            cr_assert(eq(str, text, (char *)a->wanted), "%s", a->what);
        }
        config_list_done(&list);
    }
}
