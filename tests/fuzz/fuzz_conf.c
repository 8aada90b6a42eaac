/* links: src/conf/keys.c src/conf/report.c src/conf/reader.c src/conf/draft.c src/conf/value.c src/conf/parts.c src/conf/routes.c src/conf/apply.c src/conf/rate.c src/conf/order.c src/conf/list.c src/conf/url.c src/conf/hosts.c src/conf/policy.c src/conf/route.c src/conf/check.c src/conf/load.c src/conf/dump.c src/conf/describe.c src/base/str.c src/base/mem.c src/base/err.c src/base/addr.c src/base/buf.c src/base/must.c src/conf/inbound.c src/conf/inbound_value.c */
/*
 * A settings file of any bytes is either refused, with a reason, or understood; and what was understood, printed as a file, is
 * understood the same way again. Passwords are masked in print, so a second printing is what the first is compared with.
 */
#include "base/must.h"
#include "conf/load.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static struct conf *load(const char *text, size_t size, bool *refused_with_reason)
{
    struct err err = {0}, warnings = {0};
    struct conf *conf = conf_load_text("fuzz.ini", text, size, &err, &warnings);
    *refused_with_reason = err_any(&err);
    err_fini(&err);
    err_fini(&warnings);
    return conf;
}

/* As a file, or in words for a reader: neither may stumble. */
static char *print(const struct conf *conf, size_t *size, bool describe)
{
    char *text = NULL;
    FILE *out = open_memstream(&text, size);
    must(out != NULL);
    if (describe)
        conf_describe(conf, out);
    else
        conf_dump(conf, out);
    must(fclose(out) == 0);
    return text;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    bool reason = false;
    struct conf *first = load((const char *)bytes, size, &reason);
    must((first == NULL) == reason);
    if (first == NULL)
        return 0;
    size_t dump_bytes = 0, again_bytes = 0, words_bytes = 0;
    char *dump = print(first, &dump_bytes, false);
    free(print(first, &words_bytes, true));
    struct conf *second = load(dump, dump_bytes, &reason);
    must(second != NULL);
    char *again = print(second, &again_bytes, false);
    must(again_bytes == dump_bytes && memcmp(dump, again, dump_bytes) == 0);
    free(dump);
    free(again);
    conf_free(first);
    conf_free(second);
    return 0;
}
