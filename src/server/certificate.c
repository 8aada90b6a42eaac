/*
 * EC P-256 throughout: making a key and a signature costs tens of microseconds, so that certificates can be made while
 * a caller waits. Times begin an hour ago, for callers whose clocks are behind.
 */
#include "certificate.h"

#include "base/addr.h"
#include "base/buf.h"
#include "base/mem.h"

#include <openssl/rand.h>
#include <openssl/x509v3.h>
#include <string.h>

enum { DAY_S = 86400, BACKDATED_S = 3600, CA_DAYS = 3650, LEAF_DAYS = 30, SERIAL_BYTES = 16, COMMON_NAME_MOST = 64 };

EVP_PKEY *certificate_make_key(void)
{
    return EVP_EC_gen("P-256");
}

static bool extend(X509 *cert, X509 *issuer, int nid, const char *value)
{
    X509V3_CTX ctx;

    X509V3_set_ctx_nodb(&ctx);
    X509V3_set_ctx(&ctx, issuer, cert, NULL, NULL, 0);
    X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
    bool added = extension != NULL && X509_add_ext(cert, extension, -1) == 1;
    X509_EXTENSION_free(extension);
    return added;
}

/* Random, positive, and never two alike (RFC 5280 section 4.1.2.2). */
static bool set_serial(X509 *cert)
{
    unsigned char bytes[SERIAL_BYTES];
    BIGNUM *number = NULL;

    if (RAND_bytes(bytes, sizeof(bytes)) != 1) {
        return false;
    }
    bytes[0] = (unsigned char)((bytes[0] & 0x7f) | 0x40);
    number = BN_bin2bn(bytes, sizeof(bytes), NULL);
    bool set = number != NULL && BN_to_ASN1_INTEGER(number, X509_get_serialNumber(cert)) != NULL;
    BN_free(number);
    return set;
}

static bool set_name(X509 *cert, const char *name)
{
    size_t len = strlen(name);

    /* a longer one has no place there; the alternative name has it whole */
    return X509_NAME_add_entry_by_txt(X509_get_subject_name(cert), "CN", MBSTRING_ASC, (const unsigned char *)name,
                                      (int)(len < COMMON_NAME_MOST ? len : COMMON_NAME_MOST), -1, 0) == 1;
}

static X509 *begin(EVP_PKEY *key, const char *name, long days)
{
    X509 *cert = X509_new();

    if (cert != NULL && X509_set_version(cert, 2) == 1 && set_serial(cert) && set_name(cert, name) &&
        X509_gmtime_adj(X509_getm_notBefore(cert), -BACKDATED_S) != NULL &&
        X509_gmtime_adj(X509_getm_notAfter(cert), days * DAY_S) != NULL && X509_set_pubkey(cert, key) == 1) {
        return cert;
    }
    X509_free(cert);
    return NULL;
}

static X509 *finish(X509 *cert, EVP_PKEY *signer, bool extended)
{
    if (extended && X509_sign(cert, signer, EVP_sha256()) > 0) {
        return cert;
    }
    X509_free(cert);
    return NULL;
}

/* "a.com, b.com" as "critical,permitted;DNS:a.com,permitted;DNS:b.com". */
static bool constrain(X509 *cert, const char *permitted)
{
    struct slice list = slice_of(permitted), element;
    struct buf value = {0};

    buf_add_str(&value, "critical");
    while (slice_next_element(&list, &element)) {
        buf_printf(&value, ",permitted;DNS:%.*s", (int)element.len, element.ptr);
    }
    buf_add(&value, "", 1);
    bool done = extend(cert, cert, NID_name_constraints, buf_ptr(&value));
    buf_fini(&value);
    return done;
}

X509 *certificate_make_ca(EVP_PKEY *key, const char *permitted)
{
    X509 *cert = begin(key, "sluice CA", CA_DAYS);

    if (cert == NULL || X509_set_issuer_name(cert, X509_get_subject_name(cert)) != 1) {
        X509_free(cert);
        return NULL;
    }
    bool extended = extend(cert, cert, NID_basic_constraints, "critical,CA:TRUE,pathlen:0") &&
                    extend(cert, cert, NID_key_usage, "critical,keyCertSign,cRLSign") &&
                    extend(cert, cert, NID_subject_key_identifier, "hash") &&
                    (permitted == NULL || constrain(cert, permitted));
    return finish(cert, key, extended);
}

/* Built and not parsed from text, as the host is a caller's word. */
static bool add_alternative_name(X509 *cert, const char *host)
{
    GENERAL_NAMES *names = sk_GENERAL_NAME_new_null();
    GENERAL_NAME *name = GENERAL_NAME_new();
    ASN1_OCTET_STRING *address = a2i_IPADDRESS(host);
    ASN1_IA5STRING *text = address == NULL ? ASN1_IA5STRING_new() : NULL;

    must(names != NULL && name != NULL && (address != NULL || text != NULL));
    if (address != NULL) {
        GENERAL_NAME_set0_value(name, GEN_IPADD, address);
    } else {
        must(ASN1_STRING_set(text, host, -1) == 1);
        GENERAL_NAME_set0_value(name, GEN_DNS, text);
    }
    must(sk_GENERAL_NAME_push(names, name) > 0);
    bool added = X509_add1_ext_i2d(cert, NID_subject_alt_name, names, 0, X509V3_ADD_DEFAULT) == 1;
    GENERAL_NAMES_free(names);
    return added;
}

/* It must not outlive its issuer: some callers refuse the whole chain then. */
static bool limit_life(X509 *cert, X509 *ca)
{
    return ASN1_TIME_compare(X509_get0_notAfter(cert), X509_get0_notAfter(ca)) <= 0 ||
           X509_set1_notAfter(cert, X509_get0_notAfter(ca)) == 1;
}

X509 *certificate_make_leaf(EVP_PKEY *key, const char *host, X509 *ca, EVP_PKEY *ca_key)
{
    X509 *cert = begin(key, host, LEAF_DAYS);

    if (cert == NULL || X509_set_issuer_name(cert, X509_get_subject_name(ca)) != 1 || !limit_life(cert, ca)) {
        X509_free(cert);
        return NULL;
    }
    bool extended = extend(cert, ca, NID_basic_constraints, "critical,CA:FALSE") &&
                    extend(cert, ca, NID_key_usage, "critical,digitalSignature") &&
                    extend(cert, ca, NID_ext_key_usage, "serverAuth") &&
                    extend(cert, ca, NID_subject_key_identifier, "hash") &&
                    extend(cert, ca, NID_authority_key_identifier, "keyid:always") && add_alternative_name(cert, host);
    return finish(cert, ca_key, extended);
}
