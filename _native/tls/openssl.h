/* The functions of OpenSSL 3 that are used, taken from the system's libraries at run time.

No header of OpenSSL is needed to build, and the distribution's security updates count. Types of OpenSSL are `void` here.
Constants are those of OpenSSL 3, whose interface is stable until OpenSSL 4, which has libraries of another name.
*/
#pragma once
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

typedef int (*pem_password_fn)(char *out, int size, int writing, void *data);
typedef int (*bio_write_fn)(void *bio, const char *data, int n);
typedef int (*bio_read_fn)(void *bio, char *data, int n);
typedef long (*bio_ctrl_fn)(void *bio, int command, long number, void *pointer);
typedef int (*new_session_fn)(void *ssl, void *session);

/* result, name, parameters */
#define CRYPTO_FUNCTIONS(F) \
    F(void, ERR_clear_error, (void)) \
    F(unsigned long, ERR_peek_error, (void)) \
    F(unsigned long, ERR_peek_last_error, (void)) \
    F(const char *, ERR_reason_error_string, (unsigned long code)) \
    F(void *, BIO_meth_new, (int type, const char *name)) \
    F(int, BIO_meth_set_write, (void *method, bio_write_fn write)) \
    F(int, BIO_meth_set_read, (void *method, bio_read_fn read)) \
    F(int, BIO_meth_set_ctrl, (void *method, bio_ctrl_fn control)) \
    F(int, BIO_get_new_index, (void)) \
    F(void *, BIO_new, (const void *method)) \
    F(void *, BIO_new_mem_buf, (const void *data, int n)) \
    F(const void *, BIO_s_mem, (void)) \
    F(int, BIO_free, (void *bio)) \
    F(void, BIO_set_data, (void *bio, void *data)) \
    F(void *, BIO_get_data, (void *bio)) \
    F(void, BIO_set_init, (void *bio, int is_ready)) \
    F(void, BIO_set_flags, (void *bio, int flags)) \
    F(void, BIO_clear_flags, (void *bio, int flags)) \
    F(size_t, BIO_ctrl_pending, (void *bio)) \
    F(int, BIO_read, (void *bio, void *data, int n)) \
    F(int, RAND_bytes, (unsigned char *out, int n)) \
    F(void *, PEM_read_bio_X509, (void *bio, void **x, pem_password_fn ask, void *data)) \
    F(void *, PEM_read_bio_PrivateKey, (void *bio, void **key, pem_password_fn ask, void *data)) \
    F(int, PEM_write_bio_X509, (void *bio, const void *x)) \
    F(int, PEM_write_bio_PrivateKey, (void *bio, const void *key, const void *cipher, const unsigned char *word, \
                                      int word_bytes, pem_password_fn ask, void *data)) \
    F(void, EVP_PKEY_free, (void *key)) \
    F(void *, d2i_X509, (void **x, const unsigned char **data, long n)) \
    F(int, i2d_X509, (const void *x, unsigned char **out)) \
    F(void, X509_free, (void *x)) \
    F(int, X509_check_private_key, (const void *x, const void *key)) \
    F(const void *, X509_get0_notBefore, (const void *x)) \
    F(const void *, X509_get0_notAfter, (const void *x)) \
    F(int, X509_cmp_current_time, (const void *when)) \
    F(int, ASN1_TIME_to_tm, (const void *when, struct tm *out)) \
    F(void *, X509_get_subject_name, (const void *x)) \
    F(int, X509_NAME_entry_count, (const void *name)) \
    F(void *, X509_NAME_get_entry, (const void *name, int index)) \
    F(int, X509_NAME_ENTRY_set, (const void *entry)) \
    F(void *, X509_NAME_ENTRY_get_object, (const void *entry)) \
    F(void *, X509_NAME_ENTRY_get_data, (const void *entry)) \
    F(int, OBJ_obj2txt, (char *out, int size, const void *object, int numeric)) \
    F(int, ASN1_STRING_to_UTF8, (unsigned char **out, const void *text)) \
    F(int, ASN1_STRING_type, (const void *text)) \
    F(int, ASN1_STRING_length, (const void *text)) \
    F(const unsigned char *, ASN1_STRING_get0_data, (const void *text)) \
    F(void *, X509_get_ext_d2i, (const void *x, int nid, int *critical, int *index)) \
    F(void, GENERAL_NAMES_free, (void *names)) \
    F(void *, GENERAL_NAME_get0_value, (const void *name, int *type)) \
    F(int, X509_STORE_add_cert, (void *store, void *x)) \
    F(int, X509_VERIFY_PARAM_set_flags, (void *rules, unsigned long flags)) \
    F(int, X509_VERIFY_PARAM_set1_ip_asc, (void *rules, const char *address)) \
    F(const char *, X509_verify_cert_error_string, (long code)) \
    F(int, OPENSSL_sk_num, (const void *stack)) \
    F(void *, OPENSSL_sk_value, (const void *stack, int index)) \
    F(void, OPENSSL_sk_pop_free, (void *stack, void (*drop)(void *item))) \
    F(void *, d2i_PKCS12, (void **p12, const unsigned char **data, long n)) \
    F(void, PKCS12_free, (void *p12)) \
    F(int, PKCS12_verify_mac, (void *p12, const char *word, int n)) \
    F(int, PKCS12_parse, (void *p12, const char *word, void **key, void **x, void **others)) \
    F(void, CRYPTO_free, (void *data, const char *file, int line))

#define SSL_FUNCTIONS(F) \
    F(int, OPENSSL_init_ssl, (uint64_t options, const void *settings)) \
    F(const void *, TLS_client_method, (void)) \
    F(const void *, TLS_server_method, (void)) \
    F(void *, SSL_CTX_new, (const void *method)) \
    F(void, SSL_CTX_free, (void *context)) \
    F(long, SSL_CTX_ctrl, (void *context, int command, long number, void *pointer)) \
    F(uint64_t, SSL_CTX_set_options, (void *context, uint64_t options)) \
    F(int, SSL_CTX_set_cipher_list, (void *context, const char *names)) \
    F(int, SSL_CTX_set_ciphersuites, (void *context, const char *names)) \
    F(int, SSL_CTX_set_num_tickets, (void *context, size_t count)) \
    F(int, SSL_CTX_set_session_id_context, (void *context, const unsigned char *id, unsigned int n)) \
    F(int, SSL_CTX_use_certificate, (void *context, void *x)) \
    F(int, SSL_CTX_use_PrivateKey, (void *context, void *key)) \
    F(void *, SSL_CTX_get_cert_store, (const void *context)) \
    F(void *, SSL_CTX_get0_param, (void *context)) \
    F(int, SSL_CTX_set_default_verify_paths, (void *context)) \
    F(int, SSL_CTX_add_client_CA, (void *context, void *x)) \
    F(void, SSL_CTX_set_verify, (void *context, int mode, void *callback)) \
    F(void *, SSL_CTX_get_ciphers, (const void *context)) \
    F(const char *, OPENSSL_cipher_name, (const char *standard)) \
    F(void *, SSL_new, (void *context)) \
    F(void, SSL_free, (void *ssl)) \
    F(void, SSL_set_accept_state, (void *ssl)) \
    F(void, SSL_set_connect_state, (void *ssl)) \
    F(void, SSL_set_bio, (void *ssl, void *reading, void *writing)) \
    F(long, SSL_ctrl, (void *ssl, int command, long number, void *pointer)) \
    F(int, SSL_set1_host, (void *ssl, const char *name)) \
    F(void, SSL_set_hostflags, (void *ssl, unsigned int flags)) \
    F(void *, SSL_get0_param, (void *ssl)) \
    F(int, SSL_do_handshake, (void *ssl)) \
    F(int, SSL_get_error, (const void *ssl, int result)) \
    F(int, SSL_read_ex, (void *ssl, void *out, size_t n, size_t *got)) \
    F(int, SSL_write_ex, (void *ssl, const void *data, size_t n, size_t *took)) \
    F(int, SSL_shutdown, (void *ssl)) \
    F(void *, SSL_get_rbio, (const void *ssl)) \
    F(int, SSL_set_session, (void *ssl, void *session)) \
    F(void *, SSL_get_session, (const void *ssl)) \
    F(void *, SSL_SESSION_dup, (const void *session)) \
    F(void, SSL_SESSION_free, (void *session)) \
    F(int, SSL_SESSION_is_resumable, (const void *session)) \
    F(const void *, SSL_SESSION_get0_peer, (void *session)) \
    F(void, SSL_CTX_sess_set_new_cb, (void *context, new_session_fn keep)) \
    F(int, SSL_session_reused, (const void *ssl)) \
    F(long, SSL_get_verify_result, (const void *ssl)) \
    F(void *, SSL_get1_peer_certificate, (const void *ssl)) \
    F(const char *, SSL_get_version, (const void *ssl)) \
    F(const void *, SSL_get_current_cipher, (const void *ssl)) \
    F(const char *, SSL_CIPHER_standard_name, (const void *cipher))

typedef struct OpenSsl {
#define POINTER(result, name, parameters) result (*name) parameters;
    CRYPTO_FUNCTIONS(POINTER)
    SSL_FUNCTIONS(POINTER)
#undef POINTER
} OpenSsl;

/* In library.pyx. Other packages have no copy: they call functions of this one. */
extern __attribute__((visibility("hidden"))) OpenSsl openssl;

enum {
    BIO_TYPE_SOURCE_SINK = 0x0400,
    BIO_FLAGS_READ = 1,
    BIO_FLAGS_SHOULD_RETRY = 8,
    BIO_CTRL_FLUSH = 11,
    SSL_CTRL_MODE = 33,
    SSL_CTRL_SET_SESS_CACHE_MODE = 44,
    SSL_CTRL_CLEAR_MODE = 78,
    SSL_CTRL_SET_TLSEXT_HOSTNAME = 55,
    SSL_CTRL_CHAIN_CERT = 89,
    SSL_CTRL_SET_MIN_PROTO_VERSION = 123,
    SSL_CTRL_SET_MAX_PROTO_VERSION = 124,
    SSL_MODE_ENABLE_PARTIAL_WRITE = 1,
    SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER = 2,
    SSL_MODE_AUTO_RETRY = 4,
    SSL_MODE_RELEASE_BUFFERS = 0x10,
    SSL_SESS_CACHE_CLIENT = 1,
    SSL_SESS_CACHE_NO_INTERNAL = 0x300,
    SSL_VERIFY_NONE = 0,
    SSL_VERIFY_PEER = 1,
    SSL_VERIFY_FAIL_IF_NO_PEER_CERT = 2,
    SSL_ERROR_SSL = 1,
    SSL_ERROR_WANT_READ = 2,
    SSL_ERROR_ZERO_RETURN = 6,
    X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS = 4,
    X509_V_FLAG_PARTIAL_CHAIN = 0x80000,
    NID_SUBJECT_ALT_NAME = 85,
    TLS1_2 = 0x0303,
    TLS1_3 = 0x0304,
};
#define SSL_OP_NO_COMPRESSION ((uint64_t)1 << 17)
#define SSL_OP_PRIORITIZE_CHACHA ((uint64_t)1 << 21)
#define SSL_OP_CIPHER_SERVER_PREFERENCE ((uint64_t)1 << 22)
#define SSL_OP_NO_RENEGOTIATION ((uint64_t)1 << 30)
#define INIT_NO_ATEXIT ((uint64_t)0x00080000)

/* Fills the table once. Returns 1; on failure 0 with the reason in `why`. Call it with the GIL. */
static int openssl_load(char *why, size_t size) {
    static int is_loaded = 0;
    OpenSsl found;
    void *crypto, *ssl;
    if (is_loaded)
        return 1;
    crypto = dlopen("libcrypto.so.3", RTLD_NOW | RTLD_LOCAL);
    ssl = crypto == NULL ? NULL : dlopen("libssl.so.3", RTLD_NOW | RTLD_LOCAL);
    if (ssl == NULL) {
        const char *error = dlerror();
        snprintf(why, size, "%s", error == NULL ? "dlopen failed" : error);
        return 0;
    }
#define LOOK_UP(library, name) \
    if ((*(void **)&found.name = dlsym(library, #name)) == NULL) { \
        snprintf(why, size, "it has no function %s", #name); \
        return 0; \
    }
#define LOOK_UP_CRYPTO(result, name, parameters) LOOK_UP(crypto, name)
#define LOOK_UP_SSL(result, name, parameters) LOOK_UP(ssl, name)
    CRYPTO_FUNCTIONS(LOOK_UP_CRYPTO)
    SSL_FUNCTIONS(LOOK_UP_SSL)
#undef LOOK_UP_CRYPTO
#undef LOOK_UP_SSL
#undef LOOK_UP
    /* Threads of ours may run until the process ends, so OpenSSL must not clean up before that. */
    if (found.OPENSSL_init_ssl(INIT_NO_ATEXIT, NULL) != 1) {
        snprintf(why, size, "OPENSSL_init_ssl failed; check openssl.cnf");
        return 0;
    }
    openssl = found;
    is_loaded = 1;
    return 1;
}
