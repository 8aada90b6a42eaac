/* links: src/http/write.c src/http/target.c src/http/parse.c src/http/section.c src/http/head.c src/http/grammar.c src/http/chunks.c src/http/trailers.c src/http/hop.c src/http/chars.c src/http/message.c src/base/addr.c src/base/buf.c src/base/mem.c src/base/must.c src/base/str.c */
#include "parse_fuzz.h"

#include "http/target.h"
#include "http/write.h"

static const struct parse_limits roomy = {.max_head_bytes = 65536, .max_fields = 100};

/* What we make of a request is a request again, with the same body. */
static void check_rewritten(const struct message *m)
{
    static const struct via via = {"fuzz.example"};
    struct target target;
    struct buf out = {0};

    if (slice_is(m->method, "CONNECT") || target_parse(m, &target) != TARGET_OK) {
        return;
    }
    write_request_head(&out, m, &target, &via, m->upgrade);
    struct message *again = fuzz_head(parse_new_request(&roomy), buf_ptr(&out), buf_len(&out));
    must(again != NULL);
    must(again->framing == m->framing && again->content_length == m->content_length);
    must(slice_equal_nocase(message_field(again, "Host")->value, target.authority));
    must(via_has_loop(again, &via));
    must(again->upgrade == m->upgrade);
    message_free(again);
    buf_fini(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    fuzz_pieces(RUN_REQUEST, bytes, len);
    if (len > FUZZ_CUTS) {
        struct message *m =
            fuzz_head(parse_new_request(&fuzz_limits), (const char *)bytes + FUZZ_CUTS, len - FUZZ_CUTS);
        if (m != NULL) {
            check_rewritten(m);
            message_free(m);
        }
    }
    return 0;
}
