/* links: src/server/authority.c src/server/certificate.c src/server/shield.c src/base/addr.c src/base/buf.c src/base/err.c src/base/mem.c src/base/must.c src/base/str.c */
#include "base/mem.h"
#include "server/authority.h"
#include "server/shield.h"

#include <check.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char dir[64];
static struct authority *authority;
static struct err err;

static char *path_of(const char *name)
{
    return mem_printf("%s/%s", dir, name);
}

static void begin(void)
{
    snprintf(dir, sizeof(dir), "/tmp/sluice-test-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    ck_assert(authority_create(dir, NULL, &err));
    authority = authority_load(dir, &err);
    ck_assert_ptr_nonnull(authority);
}

static void end(void)
{
    static const char *const names[] = {"ca.pem", "ca-key.pem"};

    authority_free(authority);
    for (int i = 0; i < 2; i++) {
        char *path = path_of(names[i]);
        unlink(path);
        mem_free(path);
    }
    rmdir(dir);
    err_fini(&err);
}

/* A caller that trusts our CA and asks for `name` (an address is not sent). */
static SSL *caller_for(SSL_CTX *ctx, const char *name, bool address)
{
    char *path = path_of("ca.pem");
    SSL *ssl = SSL_new(ctx);

    ck_assert_int_eq(SSL_CTX_load_verify_file(ctx, path), 1);
    SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, NULL);
    SSL_set_verify(ssl, SSL_VERIFY_PEER, NULL);
    X509_VERIFY_PARAM_set_flags(SSL_get0_param(ssl), X509_V_FLAG_X509_STRICT);
    if (address) {
        ck_assert_int_eq(X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), name), 1);
    } else {
        ck_assert_int_eq(SSL_set1_host(ssl, name), 1);
        ck_assert_int_eq(SSL_set_tlsext_host_name(ssl, name), 1);
    }
    SSL_set_bio(ssl, BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
    SSL_set_connect_state(ssl);
    mem_free(path);
    return ssl;
}

/* What the caller has to say reaches the shield in pieces. */
static enum shield_result pass_to_shield(SSL *caller, struct shield *shield, size_t piece, struct buf *plain)
{
    char bytes[65536];
    int got;
    enum shield_result result = SHIELD_OK;

    while (result == SHIELD_OK && (got = BIO_read(SSL_get_wbio(caller), bytes, (int)piece)) > 0) {
        result = shield_receive(shield, bytes, (size_t)got, plain);
    }
    return result;
}

static void pass_to_caller(struct shield *shield, SSL *caller)
{
    struct buf out = {0};

    shield_output(shield, &out);
    if (buf_len(&out) > 0) {
        BIO_write(SSL_get_rbio(caller), buf_ptr(&out), (int)buf_len(&out));
    }
    buf_fini(&out);
}

static bool shake_hands(SSL *caller, struct shield *shield, size_t piece, enum shield_result *result)
{
    struct buf plain = {0};

    for (int turn = 0; turn < 10; turn++) {
        int done = SSL_do_handshake(caller);
        *result = pass_to_shield(caller, shield, piece, &plain);
        pass_to_caller(shield, caller);
        if (done == 1 || *result != SHIELD_OK) {
            break;
        }
    }
    ck_assert_uint_eq(buf_len(&plain), 0);
    buf_fini(&plain);
    return SSL_is_init_finished(caller) == 1;
}

static void check_host(const char *host, bool address, size_t piece)
{
    SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
    SSL *caller = caller_for(ctx, host, address);
    struct shield *shield = shield_new(authority_server_side(authority, host));
    struct buf plain = {0};
    enum shield_result result;
    char bytes[64];

    shield_send(shield, "early", 5); /* waits for the handshake */
    ck_assert_msg(shake_hands(caller, shield, piece, &result), "%s", host);
    pass_to_caller(shield, caller);
    ck_assert_int_eq(SSL_read(caller, bytes, sizeof(bytes)), 5);
    ck_assert_int_eq(SSL_write(caller, "hello", 5), 5);
    ck_assert_int_eq(pass_to_shield(caller, shield, piece, &plain), SHIELD_OK);
    ck_assert_uint_eq(buf_len(&plain), 5);
    ck_assert_mem_eq(buf_ptr(&plain), "hello", 5);
    shield_end(shield);
    pass_to_caller(shield, caller);
    ck_assert_int_eq(SSL_read(caller, bytes, sizeof(bytes)), 0);
    ck_assert_int_eq(SSL_get_error(caller, 0), SSL_ERROR_ZERO_RETURN);
    SSL_shutdown(caller);
    ck_assert_int_eq(pass_to_shield(caller, shield, piece, &plain), SHIELD_ENDED);
    buf_fini(&plain);
    shield_free(shield);
    SSL_free(caller);
    SSL_CTX_free(ctx);
}

START_TEST(a_caller_that_trusts_the_ca_verifies_names_and_addresses)
{
    char long_name[200];

    memset(long_name, 'a', sizeof(long_name));
    for (size_t i = 50; i < sizeof(long_name); i += 50) {
        long_name[i] = '.';
    }
    long_name[sizeof(long_name) - 1] = '\0';
    check_host("api.test", false, 65536);
    check_host("under_score.api.test", false, 65536);
    check_host(long_name, false, 65536);
    check_host("192.0.2.7", true, 65536);
    check_host("2001:db8::7", true, 65536);
}
END_TEST

START_TEST(records_may_be_cut_anywhere)
{
    for (size_t piece = 1; piece < 12; piece++) {
        check_host("api.test", false, piece);
    }
}
END_TEST

START_TEST(another_name_is_refused_in_the_handshake)
{
    SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
    SSL *caller = caller_for(ctx, "other.test", false);
    struct shield *shield = shield_new(authority_server_side(authority, "api.test"));
    enum shield_result result;

    ck_assert(!shake_hands(caller, shield, 65536, &result));
    ck_assert_int_eq(result, SHIELD_FAILED);
    ck_assert_str_ne(shield_why(shield), "");
    shield_free(shield);
    SSL_free(caller);
    SSL_CTX_free(ctx);
}
END_TEST

START_TEST(what_is_no_tls_fails)
{
    struct shield *shield = shield_new(authority_server_side(authority, "api.test"));
    struct buf plain = {0};

    ck_assert_int_eq(shield_receive(shield, "GET / HTTP/1.1\r\n\r\n", 18, &plain), SHIELD_FAILED);
    shield_send(shield, "nobody hears this", 17);
    ck_assert_uint_eq(buf_len(&plain), 0);
    buf_fini(&plain);
    shield_free(shield);
}
END_TEST

START_TEST(a_leaf_is_made_once_and_very_many_do_not_stay)
{
    char host[32];

    for (int round = 0; round < 3; round++) {
        SSL_free(authority_server_side(authority, "api.test"));
        ck_assert_uint_eq(authority_made(authority), 1);
    }
    for (int i = 0; i < 3000; i++) {
        snprintf(host, sizeof(host), "host%d.test", i);
        SSL_free(authority_server_side(authority, host));
        SSL_free(authority_server_side(authority, "api.test"));
        ck_assert_uint_le(authority_leaves(authority), AUTHORITY_LEAVES_MOST);
    }
    ck_assert_msg(authority_made(authority) == 3001, "the one in use was never dropped");
}
END_TEST

START_TEST(files_of_others_are_refused_and_nothing_is_replaced)
{
    char *key = path_of("ca-key.pem"), *cert = path_of("ca.pem");
    struct stat st;

    ck_assert_int_eq(stat(key, &st), 0);
    ck_assert_int_eq(st.st_mode & 0777, 0600);
    ck_assert(!authority_create(dir, NULL, &err));
    ck_assert_int_eq(chmod(key, 0604), 0);
    ck_assert_ptr_null(authority_load(dir, &err));
    ck_assert_ptr_nonnull(strstr(err.lines[err.count - 1], "chmod 600"));
    ck_assert_int_eq(chmod(key, 0600), 0);
    ck_assert_int_eq(truncate(key, 10), 0);
    ck_assert_ptr_null(authority_load(dir, &err));
    ck_assert_int_eq(truncate(cert, 0), 0);
    ck_assert_ptr_null(authority_load(dir, &err));
    mem_free(key);
    mem_free(cert);
}
END_TEST

/* Changes the CA's certificate and signs it again. */
static void remake(bool (*change)(X509 *cert))
{
    char *cert_path = path_of("ca.pem"), *key_path = path_of("ca-key.pem");
    FILE *file = fopen(cert_path, "r");
    X509 *cert = PEM_read_X509(file, NULL, NULL, NULL);

    fclose(file);
    file = fopen(key_path, "r");
    EVP_PKEY *key = PEM_read_PrivateKey(file, NULL, NULL, NULL);
    fclose(file);
    ck_assert(change(cert));
    ck_assert_int_gt(X509_sign(cert, key, EVP_sha256()), 0);
    file = fopen(cert_path, "w");
    PEM_write_X509(file, cert);
    fclose(file);
    X509_free(cert);
    EVP_PKEY_free(key);
    mem_free(cert_path);
    mem_free(key_path);
}

static bool expire(X509 *cert)
{
    return X509_gmtime_adj(X509_getm_notAfter(cert), -10) != NULL;
}

static bool drop_constraints(X509 *cert)
{
    int at = X509_get_ext_by_NID(cert, NID_basic_constraints, -1);

    X509_EXTENSION_free(X509_delete_ext(cert, at));
    at = X509_get_ext_by_NID(cert, NID_key_usage, -1);
    X509_EXTENSION_free(X509_delete_ext(cert, at));
    return true;
}

START_TEST(a_ca_that_has_expired_or_is_none_is_refused_with_what_to_do)
{
    remake(expire);
    ck_assert_ptr_null(authority_load(dir, &err));
    ck_assert_ptr_nonnull(strstr(err.lines[err.count - 1], "has expired"));
    ck_assert_ptr_nonnull(strstr(err.lines[err.count - 1], "sluice ca init --dir"));
    remake(drop_constraints);
    ck_assert_ptr_null(authority_load(dir, &err));
    ck_assert_ptr_nonnull(strstr(err.lines[err.count - 1], "is not the certificate of a CA"));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("authority");
    TCase *tcase = tcase_create("certificates");
    SRunner *runner;
    int failed;

    tcase_add_checked_fixture(tcase, begin, end);
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, a_caller_that_trusts_the_ca_verifies_names_and_addresses);
    tcase_add_test(tcase, records_may_be_cut_anywhere);
    tcase_add_test(tcase, another_name_is_refused_in_the_handshake);
    tcase_add_test(tcase, what_is_no_tls_fails);
    tcase_add_test(tcase, a_leaf_is_made_once_and_very_many_do_not_stay);
    tcase_add_test(tcase, files_of_others_are_refused_and_nothing_is_replaced);
    tcase_add_test(tcase, a_ca_that_has_expired_or_is_none_is_refused_with_what_to_do);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
