/* The texts of HTTP answers. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "admin/http_text_priv.h"
#include "core/assert.h"
#include "core/wbuf.h"

enum {
    PROBLEM_SIZE_MAX = 64 << 10,
    HEALTH_SIZE_MAX = 64 << 10,
};

const char *http_status_title(uint32_t status)
{
    static const struct {
        uint32_t status;
        const char *title;
    } rows[] = {
        {200, "OK"},
        {201, "Created"},
        {202, "Accepted"},
        {204, "No Content"},
        {400, "Bad Request"},
        {401, "Unauthorized"},
        {403, "Forbidden"},
        {404, "Not Found"},
        {405, "Method Not Allowed"},
        {406, "Not Acceptable"},
        {408, "Request Timeout"},
        {409, "Conflict"},
        {413, "Content Too Large"},
        {414, "URI Too Long"},
        {415, "Unsupported Media Type"},
        {422, "Unprocessable Content"},
        {429, "Too Many Requests"},
        {431, "Request Header Fields Too Large"},
        {500, "Internal Server Error"},
        {501, "Not Implemented"},
        {503, "Service Unavailable"},
        {504, "Gateway Timeout"},
        {505, "HTTP Version Not Supported"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (rows[i].status == status) {
            return rows[i].title;
        }
    }
    return "Unknown";
}

/* RFC 9110, 5.6.7. Not strftime: its names of days and months follow the locale. */
static void format_date(int64_t wall_ms, char *ret_text, size_t size)
{
    static const char days[7][4] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
    static const char months[12][4] = {
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
    time_t seconds = (time_t)(wall_ms / 1000);
    struct tm t;
    (void)gmtime_r(&seconds, &t);
    (void)snprintf(ret_text,
                   size,
                   "%s, %02d %s %04d %02d:%02d:%02d GMT",
                   days[t.tm_wday],
                   t.tm_mday,
                   months[t.tm_mon],
                   1900 + t.tm_year,
                   t.tm_hour,
                   t.tm_min,
                   t.tm_sec);
}

size_t http_format_head(const struct http_head *h, char ret_text[HTTP_HEAD_SIZE_MAX])
{
    char date[64];
    format_date(h->wall_ms, date, sizeof(date));
    int size = snprintf(ret_text,
                        HTTP_HEAD_SIZE_MAX,
                        "HTTP/1.1 %" PRIu32 " %s\r\n"
                        "Date: %s\r\n"
                        "Server: coreflume\r\n"
                        "Content-Type: %s\r\n"
                        "Content-Length: %zu\r\n"
                        "Cache-Control: no-store\r\n"
                        "X-Content-Type-Options: nosniff\r\n"
                        "Connection: %s\r\n"
                        "%s%s"
                        "\r\n",
                        h->status,
                        http_status_title(h->status),
                        date,
                        h->content_type,
                        h->content_size,
                        h->is_keep_alive ? "keep-alive" : "close",
                        h->header == NULL ? "" : h->header,
                        h->header == NULL ? "" : "\r\n");
    assert_cmp(size, >, 0);
    assert_cmp(size, <, HTTP_HEAD_SIZE_MAX);
    return (size_t)size;
}

/* Bytes above ASCII are taken as Latin-1: whatever a client sent, the result is valid JSON. */
static void put_json_text(struct wbuf *w, const char *text)
{
    for (const unsigned char *at = (const unsigned char *)text; *at != '\0'; at++) {
        char escaped[8];
        if (*at == '"' || *at == '\\') {
            wbuf_i8(w, '\\');
            wbuf_i8(w, (int8_t)*at);
        } else if (*at < ' ' || *at > '~') {
            wbuf_bytes(w, escaped, (size_t)snprintf(escaped, sizeof(escaped), "\\u%04x", *at));
        } else {
            wbuf_i8(w, (int8_t)*at);
        }
    }
}

static void put_text(struct wbuf *w, const char *text)
{
    wbuf_bytes(w, text, strlen(text));
}

char *http_format_problem(uint32_t status, const char *detail, size_t *ret_size)
{
    char number[16];
    (void)snprintf(number, sizeof(number), "%" PRIu32, status);
    struct wbuf w;
    wbuf_init(&w, PROBLEM_SIZE_MAX);
    put_text(&w, "{\"type\":\"about:blank\",\"title\":\"");
    put_json_text(&w, http_status_title(status));
    put_text(&w, "\",\"status\":");
    put_text(&w, number);
    put_text(&w, ",\"detail\":\"");
    put_json_text(&w, detail);
    put_text(&w, "\"}\n");
    if (wbuf_failure(&w) != ERR_OK) {
        wbuf_done(&w);
        return NULL;
    }
    return (char *)wbuf_take(&w, ret_size);
}

char *http_format_health(const struct admin_problem *problems, uint32_t count, size_t *ret_size)
{
    struct wbuf w;
    wbuf_init(&w, HEALTH_SIZE_MAX);
    put_text(&w, "{\"status\":\"alive\",\"problems\":[");
    for (uint32_t i = 0; i < count; i++) {
        put_text(&w, i == 0 ? "{\"code\":\"" : ",{\"code\":\"");
        put_json_text(&w, problems[i].code);
        put_text(&w, "\",\"subject\":\"");
        put_json_text(&w, problems[i].subject);
        put_text(&w, "\",\"action\":\"");
        put_json_text(&w, problems[i].action);
        put_text(&w, "\"}");
    }
    put_text(&w, "]}\n");
    if (wbuf_failure(&w) != ERR_OK) {
        wbuf_done(&w);
        return NULL;
    }
    return (char *)wbuf_take(&w, ret_size);
}
