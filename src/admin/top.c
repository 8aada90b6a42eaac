/*
 * The page for terminals. Asks for the status once a second and draws it; ncurses sends what changed. In a narrow
 * terminal the columns on the right fall off, the names never.
 */
#include "admin/top.h"

#include "admin/table.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/must.h"

#include <ncurses.h>
#include <string.h>
#include <unistd.h>

enum { CTRL_L = 12, PAUSE_SECONDS = 300, WORD_BYTES = 240, FIRST_ROW = TABLE_TOP_LINES + 2 };

#define REFRESH_US CLOCK_SECOND_US

struct view {
    struct ask *ask;
    json_t *status, *before; /* NULL: not known */
    int selected, first;     /* of the rows */
    char word[WORD_BYTES];   /* what was done, or why not */
};

static int count_rows(const struct view *view)
{
    return (int)json_array_size(json_object_get(view->status, "destinations"));
}

static const json_t *row_at(const json_t *status, int index)
{
    return json_array_get(json_object_get(status, "destinations"), (size_t)index);
}

static const char *name_of(const json_t *row)
{
    const char *name = json_string_value(json_object_get(row, "name"));
    return name != NULL ? name : "";
}

/* The same destination a second before: usually at the same place. */
static const json_t *earlier(const struct view *view, const json_t *row, int index)
{
    const json_t *before = row_at(view->before, index);

    for (int i = 0; view->before != NULL && (before == NULL || strcmp(name_of(before), name_of(row)) != 0); i++) {
        before = row_at(view->before, i);
        if (before == NULL) {
            return NULL;
        }
    }
    return before;
}

/* ---- drawing ---- */

static void measure(const struct view *view, int widths[TABLE_COLUMNS])
{
    struct table_line line;

    for (int c = 0; c < TABLE_COLUMNS; c++) {
        widths[c] = (int)strlen(table_heads[c]);
    }
    for (int i = 0; i < count_rows(view); i++) {
        const json_t *row = row_at(view->status, i);
        table_row(row, earlier(view, row, i), &line);
        for (int c = 0; c < TABLE_COLUMNS; c++) {
            int len = (int)strlen(line.cell[c]);
            widths[c] = len > widths[c] ? len : widths[c];
        }
    }
}

static void draw_cells(int y, const struct table_line *line, const int widths[TABLE_COLUMNS])
{
    int x = 0;

    for (int c = 0; c < TABLE_COLUMNS && x < COLS; c++) {
        int room = COLS - x;
        bool is_left = c <= TABLE_STATE || c == TABLE_COLUMNS - 1;
        mvprintw(y, x, is_left ? "%-*.*s" : "%*.*s", widths[c] < room ? widths[c] : room, room, line->cell[c]);
        x += widths[c] + 2;
    }
}

static void draw_heads(const int widths[TABLE_COLUMNS])
{
    struct table_line heads = {0};

    for (int c = 0; c < TABLE_COLUMNS; c++) {
        snprintf(heads.cell[c], TABLE_CELL_BYTES, "%s", table_heads[c]);
    }
    attron(A_BOLD);
    draw_cells(TABLE_TOP_LINES + 1, &heads, widths);
    attroff(A_BOLD);
}

static void draw_rows(const struct view *view)
{
    int widths[TABLE_COLUMNS];
    struct table_line line;

    measure(view, widths);
    draw_heads(widths);
    for (int i = view->first; i < count_rows(view) && FIRST_ROW + i - view->first < LINES - 1; i++) {
        const json_t *row = row_at(view->status, i);
        attr_t look = i == view->selected ? A_REVERSE : A_NORMAL;
        table_row(row, earlier(view, row, i), &line);
        attron(look);
        draw_cells(FIRST_ROW + i - view->first, &line, widths);
        attroff(look);
    }
}

static void draw(const struct view *view)
{
    char top[TABLE_TOP_LINES][TABLE_TOP_BYTES];

    erase();
    if (view->status != NULL) {
        table_top(view->status, top);
        for (int i = 0; i < TABLE_TOP_LINES; i++) {
            mvprintw(i, 0, "%.*s", COLS, top[i]);
        }
        draw_rows(view);
    }
    const char *keys = "q quit   up/down choose   p pause for 5 min   r resume";
    mvprintw(LINES - 1, 0, "%.*s", COLS - 1, view->word[0] != '\0' ? view->word : keys);
    refresh();
}

/* ---- asking ---- */

static enum ask_exit look(struct view *view)
{
    json_t *status;
    char *why;
    enum ask_exit code = ask_json(view->ask, "status.json", NULL, &status, &why);

    if (code != ASK_DONE) {
        snprintf(view->word, sizeof(view->word), "%s", why);
        json_decref(status);
        mem_free(why);
        return code;
    }
    json_decref(view->before);
    view->before = view->status;
    view->status = status;
    int last = count_rows(view) - 1;
    view->selected = view->selected > last ? (last > 0 ? last : 0) : view->selected;
    return ASK_DONE;
}

static void act(struct view *view, const char *path, int seconds)
{
    const char *name = name_of(row_at(view->status, view->selected));
    json_t *body = json_pack("{s:s}", "destination", name), *answer;
    char *why;

    if (seconds > 0) {
        json_object_set_new(body, "seconds", json_integer(seconds));
    }
    enum ask_exit code = ask_json(view->ask, path, body, &answer, &why);
    snprintf(view->word, sizeof(view->word), "%s: %s", name,
             code == ASK_DONE ? (seconds > 0 ? "paused" : "goes on") : why);
    json_decref(answer);
    json_decref(body);
    mem_free(why);
}

static void move_bar(struct view *view, int by)
{
    int to = view->selected + by, room = LINES - 1 - FIRST_ROW;

    if (to >= 0 && to < count_rows(view)) {
        view->selected = to;
        view->first = to < view->first ? to : to - view->first >= room ? to - room + 1 : view->first;
    }
}

/* False: it was told to end. */
static bool take_key(struct view *view, int key)
{
    if (key != ERR) {
        view->word[0] = '\0';
    }
    switch (key) {
    case 'q':
    case 'Q':
        return false;
    case KEY_UP:
    case 'k':
        move_bar(view, -1);
        break;
    case KEY_DOWN:
    case 'j':
        move_bar(view, 1);
        break;
    case CTRL_L:
        clearok(stdscr, TRUE);
        break;
    case 'p':
        act(view, "control/pause", PAUSE_SECONDS);
        break;
    case 'r':
        act(view, "control/resume", 0);
        break;
    default:
        break;
    }
    return true;
}

static int64_t ms_until(struct mono due)
{
    int64_t left_us = mono_diff(due, clock_mono_now());
    return left_us > 0 ? left_us / CLOCK_MS_US + 1 : 0;
}

static void watch(struct view *view)
{
    struct mono due = mono_add(clock_mono_now(), REFRESH_US);
    int key;

    do {
        draw(view);
        timeout((int)ms_until(due));
        key = getch();
        if (ms_until(due) == 0) {
            if (look(view) == ASK_DONE && key == ERR) {
                view->word[0] = '\0';
            }
            due = mono_add(clock_mono_now(), REFRESH_US);
        }
    } while (take_key(view, key));
}

enum ask_exit top_run(struct ask *ask)
{
    struct view view = {.ask = ask};

    if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO)) {
        fputs("sluice: top needs a terminal; for scripts there is: sluice status --json\n", stderr);
        return ASK_BAD_USE;
    }
    enum ask_exit code = look(&view);
    if (code != ASK_DONE) {
        fprintf(stderr, "sluice: %s\n", view.word);
        return code;
    }
    if (initscr() == NULL) {
        return ASK_BAD_USE;
    }
    cbreak();
    noecho();
    curs_set(0);
    keypad(stdscr, TRUE);
    watch(&view);
    endwin();
    json_decref(view.before);
    json_decref(view.status);
    return ASK_DONE;
}
