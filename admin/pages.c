/* The pages of the admin interface. */
#include "admin/pages.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "admin/http_text_priv.h"
#include "core/assert.h"
#include "core/shard.h"

enum {
    DETAIL_SIZE = 512,
    SHOWN_PATH_SIZE_MAX = 200,
};

static void answer_text(struct http_request *r, const char *content_type, const char *text)
{
    size_t size = strlen(text);
    char *copy = strdup(text);
    if (copy == NULL) {
        http_answer_problem(r, 503, "No memory for the answer: try again later.", NULL);
        return;
    }
    http_answer(
        r,
        &(struct http_answer){
            .status = 200, .content_type = content_type, .data = (uint8_t *)copy, .size = size});
}

static void serve_index(struct pages *p, struct http_request *r)
{
    char text[DETAIL_SIZE];
    (void)snprintf(text,
                   sizeof(text),
                   "coreflume %.100s\n\n"
                   "/healthz   the process is alive; problems, and what to do about them\n"
                   "/readyz    the broker serves clients; if not, why\n"
                   "/metrics   for Prometheus\n",
                   p->info.version);
    answer_text(r, "text/plain; charset=utf-8", text);
}

static void serve_health(struct pages *p, struct http_request *r)
{
    /* 200 also with problems: whoever restarts what is not healthy would help with none of them. */
    struct admin_problem problems[ADMIN_PROBLEMS_MAX];
    const uint32_t count = p->find_problems(p->context, problems);
    size_t size;
    char *text = http_format_health(problems, count, &size);
    if (text == NULL) {
        http_answer_problem(r, 503, "No memory for the answer: try again later.", NULL);
        return;
    }
    http_answer(r,
                &(struct http_answer){.status = 200,
                                      .content_type = "application/json",
                                      .data = (uint8_t *)text,
                                      .size = size});
}

static void serve_ready(struct pages *p, struct http_request *r)
{
    char reason[ADMIN_REASON_SIZE] = "";
    if (p->is_ready(p->context, reason)) {
        answer_text(r, "application/json", "{\"status\":\"ready\"}\n");
    } else {
        http_answer_problem(r, 503, reason, NULL);
    }
}

static void on_metrics(void *context, uint8_t *page, size_t size)
{
    struct http_request *r = context;
    if (page == NULL) {
        http_answer_problem(r, 503, "No memory for the page: try again later.", NULL);
        return;
    }
    http_answer(r,
                &(struct http_answer){.status = 200,
                                      .content_type = "text/plain; version=0.0.4; charset=utf-8",
                                      .data = page,
                                      .size = size});
}

static void serve_metrics(struct pages *p, struct http_request *r)
{
    struct admin_problem problems[ADMIN_PROBLEMS_MAX];
    (void)p->find_problems(p->context, problems);
    metrics_begin(p->shard, &p->info, r, on_metrics);
}

static const struct {
    const char *path;
    void (*serve)(struct pages *p, struct http_request *r);
} pages_table[] = {
    {"/", serve_index},
    {"/healthz", serve_health},
    {"/metrics", serve_metrics},
    {"/readyz", serve_ready},
};

static void serve_nothing(struct http_request *r)
{
    char detail[DETAIL_SIZE];
    bool is_long = r->path.size > SHOWN_PATH_SIZE_MAX;
    (void)snprintf(detail,
                   sizeof(detail),
                   "There is no page %.*s%s: see / for those there are.",
                   is_long ? SHOWN_PATH_SIZE_MAX : (int)r->path.size,
                   (const char *)r->path.data,
                   is_long ? "..." : "");
    http_answer_problem(r, 404, detail, NULL);
}

void pages_serve(struct pages *p, struct http_request *r)
{
    for (size_t i = 0; i < sizeof(pages_table) / sizeof(pages_table[0]); i++) {
        if (!slice_equal_string(r->path, pages_table[i].path)) {
            continue;
        }
        if (r->verb == HTTP_VERB_GET || r->verb == HTTP_VERB_HEAD) {
            pages_table[i].serve(p, r);
        } else {
            http_answer_problem(
                r, 405, "This page can only be read: use GET or HEAD.", "Allow: GET, HEAD");
        }
        return;
    }
    serve_nothing(r);
}
