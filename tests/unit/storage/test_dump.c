/* The dump of a segment file shows every good entry, and says what is wrong in between. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "storage/dump.h"

#include "tests/support/log_rig.h"

struct seen {
    char text[4096]; /* One word per item. */
};

static enum err on_item(void *context, const struct dump_item *item)
{
    struct seen *s = context;
    size_t used = strlen(s->text);
    char *out = s->text + used;
    size_t size = sizeof(s->text) - used;
    switch (item->kind) {
    case DUMP_SEGMENT:
        (void)snprintf(out, size, "segment:%d", (int)item->segment->base.index);
        break;
    case DUMP_ENTRY:
        (void)snprintf(out,
                       size,
                       " %d%s",
                       (int)item->entry->index,
                       item->fault == ENTRY_GOOD ? "" : entry_fault_name(item->fault));
        break;
    case DUMP_BAD:
        (void)snprintf(out,
                       size,
                       " bad:%s@%d-%d,offset%d-%d",
                       entry_fault_name(item->fault),
                       (int)item->pos,
                       (int)item->end_pos,
                       (int)item->first_offset,
                       item->next_offset == INT64_MAX ? -1 : (int)item->next_offset);
        break;
    case DUMP_CUT:
        (void)snprintf(out, size, " cut:%d", (int)item->index);
        break;
    case DUMP_END:
        (void)snprintf(out, size, " end:%d", (int)item->pos);
        break;
    }
    return ERR_OK;
}

static struct log_rig *rig_open(uint64_t seed)
{
    struct log_rig *rig = malloc(sizeof(*rig));
    log_rig_init(rig, seed);
    log_rig_start(rig);
    cr_assert(eq(int, log_rig_open(rig), ERR_OK));
    return rig;
}

static void expect_dump(struct log_rig *rig, const char *text)
{
    char path[256];
    log_rig_path(1, ".log", path);
    struct seen seen = {0};
    enum err e = log_dump(&rig->ss.s->io, path, &seen, on_item);
    cr_assert(eq(int, e, ERR_OK));
    cr_assert(eq(str, seen.text, (char *)text));
}

static void rig_end(struct log_rig *rig)
{
    log_rig_stop(rig);
    log_rig_done(rig);
    free(rig);
}

static void fill(struct log_rig *rig, int count, int group)
{
    for (int i = 0; i < count; i++) {
        cr_assert(eq(int, log_rig_append(rig, 1, 100, 1000), ERR_OK));
        if (i % group == group - 1) {
            log_rig_flush(rig);
        }
    }
    log_rig_flush(rig);
    log_rig_settle(rig);
}

Test(dump, a_sound_segment)
{
    struct log_rig *rig = rig_open(1);
    fill(rig, 5, 1);
    expect_dump(rig, "segment:1 1 2 3 4 5 end:24576");
    rig_end(rig);
}

Test(dump, entries_that_a_cut_left_behind)
{
    struct log_rig *rig = rig_open(2);
    fill(rig, 5, 5);
    cr_assert(eq(int, log_rig_cut(rig, 3), ERR_OK));
    fill(rig, 2, 1);
    expect_dump(rig, "segment:1 1 2 3 4 5 bad:order@8192-8192,offset5-5 cut:3 3 4 end:16384");
    rig_end(rig);
}

Test(dump, damage)
{
    static const struct {
        uint64_t at;
        const char *text;
    } rows[] = {
        {8192 + 8, "segment:1 1 bad:salt@8192-12288,offset1-2 3 4 5 end:24576"},
        {8192 + 50, "segment:1 1 bad:header@8192-12288,offset1-2 3 4 5 end:24576"},
        {20480 + 50, "segment:1 1 2 3 4 bad:header@20480-65536,offset4--1 end:20480"},
        {8192 + 190, "segment:1 1 2payload 3 4 5 end:24576"},
        {20480 + 190, "segment:1 1 2 3 4 5payload end:20480"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct log_rig *rig = rig_open(10 + i);
        fill(rig, 5, 1);
        char path[256];
        log_rig_path(1, ".log", path);
        cr_assert(eq(int, disk_sim_flip_bit(rig->disk, path, rows[i].at, 2), ERR_OK));
        expect_dump(rig, rows[i].text);
        rig_end(rig);
    }
}

Test(dump, what_is_no_segment_is_refused)
{
    struct log_rig *rig = rig_open(20);
    fill(rig, 1, 1);
    char path[256];
    log_rig_path(1, ".log", path);
    cr_assert(eq(int, disk_sim_flip_bit(rig->disk, path, 20, 2), ERR_OK));
    struct seen seen = {0};
    enum err e = log_dump(&rig->ss.s->io, path, &seen, on_item);
    cr_assert(eq(int, e, ERR_CORRUPT));
    e = log_dump(&rig->ss.s->io, "/data/none", &seen, on_item);
    cr_assert(eq(int, e, ERR_NOT_FOUND));
    rig_end(rig);
}
