#include "admin/look.h"

#include "admin/answer.h"
#include "admin/metrics.h"
#include "admin/show.h"
#include "base/mem.h"

#include <stdint.h>

enum { BUSY_SHOWN = 30 };

struct look {
    struct admin *admin;
    struct evhttp_request *request;                              /* NULL: `told` hears of it */
    void (*told)(struct admin *admin, const struct buf *status); /* NULL: the request is answered */
    struct metrics *metrics;                                     /* NULL: a status */
    struct buf rows;
};

static void free_look(void *arg)
{
    struct look *look = arg;

    if (look->metrics != NULL) {
        metrics_free(look->metrics);
    }
    buf_fini(&look->rows);
    mem_free(look);
}

static struct look *look_new(struct admin *admin)
{
    struct look *look = mem_zalloc(sizeof(*look));

    look->admin = admin;
    return look;
}

static void metrics_done(void *arg)
{
    struct look *look = arg;
    struct buf text = {0};

    metrics_write(look->metrics, look->admin, &text);
    answer_bytes(look->request, 200, "text/plain; version=0.0.4; charset=utf-8", buf_ptr(&text), buf_len(&text));
    buf_fini(&text);
    free_look(look);
}

static void add_row(void *arg, const struct row *row)
{
    show_row(&((struct look *)arg)->rows, row);
}

static void add_sample(void *arg, const struct row *row)
{
    metrics_row(((struct look *)arg)->metrics, row);
}

static void status_done(void *arg)
{
    struct look *look = arg;
    struct buf text = {0};

    show_status(look->admin, &look->rows, &text);
    if (look->told != NULL) {
        look->told(look->admin, &text);
    } else {
        answer_bytes(look->request, 200, "application/json", buf_ptr(&text), buf_len(&text));
    }
    buf_fini(&text);
    free_look(look);
}

void look_answer(struct admin *admin, struct evhttp_request *request, enum look_kind kind)
{
    struct look *look = look_new(admin);

    look->request = request;
    if (kind == LOOK_METRICS) {
        look->metrics = metrics_new();
        rows_walk(admin, UINT32_MAX, 0, add_sample, metrics_done, look);
    } else {
        rows_walk(admin, UINT32_MAX, BUSY_SHOWN, add_row, status_done, look);
    }
}

void look_status(struct admin *admin, unsigned most, void (*done)(struct admin *admin, const struct buf *status))
{
    struct look *look = look_new(admin);

    look->told = done;
    rows_walk(admin, most, BUSY_SHOWN, add_row, status_done, look);
}

void look_stop(struct admin *admin)
{
    rows_stop(admin, free_look);
}
