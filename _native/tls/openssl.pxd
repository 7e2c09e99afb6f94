"""The functions of OpenSSL as a table, see openssl.h."""
from libc.stdint cimport uint64_t
from libc.time cimport tm

cdef extern from "tls/openssl.h" nogil:
    ctypedef int (*pem_password_fn)(char *out, int size, int writing, void *data) noexcept nogil
    ctypedef int (*bio_write_fn)(void *bio, const char *data, int n) noexcept nogil
    ctypedef int (*bio_read_fn)(void *bio, char *data, int n) noexcept nogil
    ctypedef long (*bio_ctrl_fn)(void *bio, int command, long number, void *pointer) noexcept nogil
    ctypedef void (*drop_fn)(void *item) noexcept nogil
    ctypedef int (*new_session_fn)(void *ssl, void *session) noexcept nogil
    ctypedef struct OpenSsl:
        void (*ERR_clear_error)() noexcept nogil
        unsigned long (*ERR_peek_error)() noexcept nogil
        unsigned long (*ERR_peek_last_error)() noexcept nogil
        const char *(*ERR_reason_error_string)(unsigned long code) noexcept nogil
        void *(*BIO_meth_new)(int type, const char *name) noexcept nogil
        int (*BIO_meth_set_write)(void *method, bio_write_fn write) noexcept nogil
        int (*BIO_meth_set_read)(void *method, bio_read_fn read) noexcept nogil
        int (*BIO_meth_set_ctrl)(void *method, bio_ctrl_fn control) noexcept nogil
        int (*BIO_get_new_index)() noexcept nogil
        void *(*BIO_new)(const void *method) noexcept nogil
        void *(*BIO_new_mem_buf)(const void *data, int n) noexcept nogil
        const void *(*BIO_s_mem)() noexcept nogil
        int (*BIO_free)(void *bio) noexcept nogil
        void (*BIO_set_data)(void *bio, void *data) noexcept nogil
        void *(*BIO_get_data)(void *bio) noexcept nogil
        void (*BIO_set_init)(void *bio, int is_ready) noexcept nogil
        void (*BIO_set_flags)(void *bio, int flags) noexcept nogil
        void (*BIO_clear_flags)(void *bio, int flags) noexcept nogil
        size_t (*BIO_ctrl_pending)(void *bio) noexcept nogil
        int (*BIO_read)(void *bio, void *data, int n) noexcept nogil
        int (*RAND_bytes)(unsigned char *out, int n) noexcept nogil
        void *(*PEM_read_bio_X509)(void *bio, void **x, pem_password_fn ask, void *data) noexcept nogil
        void *(*PEM_read_bio_PrivateKey)(void *bio, void **key, pem_password_fn ask, void *data) noexcept nogil
        int (*PEM_write_bio_X509)(void *bio, const void *x) noexcept nogil
        int (*PEM_write_bio_PrivateKey)(
            void *bio, const void *key, const void *cipher, const unsigned char *word, int word_bytes,
            pem_password_fn ask, void *data) noexcept nogil
        void (*EVP_PKEY_free)(void *key) noexcept nogil
        void *(*d2i_X509)(void **x, const unsigned char **data, long n) noexcept nogil
        int (*i2d_X509)(const void *x, unsigned char **out) noexcept nogil
        void (*X509_free)(void *x) noexcept nogil
        int (*X509_check_private_key)(const void *x, const void *key) noexcept nogil
        const void *(*X509_get0_notBefore)(const void *x) noexcept nogil
        const void *(*X509_get0_notAfter)(const void *x) noexcept nogil
        int (*X509_cmp_current_time)(const void *when) noexcept nogil
        int (*ASN1_TIME_to_tm)(const void *when, tm *out) noexcept nogil
        void *(*X509_get_subject_name)(const void *x) noexcept nogil
        int (*X509_NAME_entry_count)(const void *name) noexcept nogil
        void *(*X509_NAME_get_entry)(const void *name, int index) noexcept nogil
        int (*X509_NAME_ENTRY_set)(const void *entry) noexcept nogil
        void *(*X509_NAME_ENTRY_get_object)(const void *entry) noexcept nogil
        void *(*X509_NAME_ENTRY_get_data)(const void *entry) noexcept nogil
        int (*OBJ_obj2txt)(char *out, int size, const void *object, int numeric) noexcept nogil
        int (*ASN1_STRING_to_UTF8)(unsigned char **out, const void *text) noexcept nogil
        int (*ASN1_STRING_type)(const void *text) noexcept nogil
        int (*ASN1_STRING_length)(const void *text) noexcept nogil
        const unsigned char *(*ASN1_STRING_get0_data)(const void *text) noexcept nogil
        void *(*X509_get_ext_d2i)(const void *x, int nid, int *critical, int *index) noexcept nogil
        void (*GENERAL_NAMES_free)(void *names) noexcept nogil
        void *(*GENERAL_NAME_get0_value)(const void *name, int *type) noexcept nogil
        int (*X509_STORE_add_cert)(void *store, void *x) noexcept nogil
        int (*X509_VERIFY_PARAM_set_flags)(void *rules, unsigned long flags) noexcept nogil
        int (*X509_VERIFY_PARAM_set1_ip_asc)(void *rules, const char *address) noexcept nogil
        const char *(*X509_verify_cert_error_string)(long code) noexcept nogil
        int (*OPENSSL_sk_num)(const void *stack) noexcept nogil
        void *(*OPENSSL_sk_value)(const void *stack, int index) noexcept nogil
        void (*OPENSSL_sk_pop_free)(void *stack, drop_fn drop) noexcept nogil
        void *(*d2i_PKCS12)(void **p12, const unsigned char **data, long n) noexcept nogil
        void (*PKCS12_free)(void *p12) noexcept nogil
        int (*PKCS12_verify_mac)(void *p12, const char *word, int n) noexcept nogil
        int (*PKCS12_parse)(void *p12, const char *word, void **key, void **x, void **others) noexcept nogil
        void (*CRYPTO_free)(void *data, const char *file, int line) noexcept nogil
        int (*OPENSSL_init_ssl)(uint64_t options, const void *settings) noexcept nogil
        const void *(*TLS_client_method)() noexcept nogil
        const void *(*TLS_server_method)() noexcept nogil
        void *(*SSL_CTX_new)(const void *method) noexcept nogil
        void (*SSL_CTX_free)(void *context) noexcept nogil
        long (*SSL_CTX_ctrl)(void *context, int command, long number, void *pointer) noexcept nogil
        uint64_t (*SSL_CTX_set_options)(void *context, uint64_t options) noexcept nogil
        int (*SSL_CTX_set_cipher_list)(void *context, const char *names) noexcept nogil
        int (*SSL_CTX_set_ciphersuites)(void *context, const char *names) noexcept nogil
        int (*SSL_CTX_set_num_tickets)(void *context, size_t count) noexcept nogil
        int (*SSL_CTX_set_session_id_context)(void *context, const unsigned char *id, unsigned int n) noexcept nogil
        int (*SSL_CTX_use_certificate)(void *context, void *x) noexcept nogil
        int (*SSL_CTX_use_PrivateKey)(void *context, void *key) noexcept nogil
        void *(*SSL_CTX_get_cert_store)(const void *context) noexcept nogil
        void *(*SSL_CTX_get0_param)(void *context) noexcept nogil
        int (*SSL_CTX_set_default_verify_paths)(void *context) noexcept nogil
        int (*SSL_CTX_add_client_CA)(void *context, void *x) noexcept nogil
        void (*SSL_CTX_set_verify)(void *context, int mode, void *callback) noexcept nogil
        void *(*SSL_CTX_get_ciphers)(const void *context) noexcept nogil
        const char *(*OPENSSL_cipher_name)(const char *standard) noexcept nogil
        void *(*SSL_new)(void *context) noexcept nogil
        void (*SSL_free)(void *ssl) noexcept nogil
        void (*SSL_set_accept_state)(void *ssl) noexcept nogil
        void (*SSL_set_connect_state)(void *ssl) noexcept nogil
        void (*SSL_set_bio)(void *ssl, void *reading, void *writing) noexcept nogil
        long (*SSL_ctrl)(void *ssl, int command, long number, void *pointer) noexcept nogil
        int (*SSL_set1_host)(void *ssl, const char *name) noexcept nogil
        void (*SSL_set_hostflags)(void *ssl, unsigned int flags) noexcept nogil
        void *(*SSL_get0_param)(void *ssl) noexcept nogil
        int (*SSL_do_handshake)(void *ssl) noexcept nogil
        int (*SSL_get_error)(const void *ssl, int result) noexcept nogil
        int (*SSL_read_ex)(void *ssl, void *out, size_t n, size_t *got) noexcept nogil
        int (*SSL_write_ex)(void *ssl, const void *data, size_t n, size_t *took) noexcept nogil
        int (*SSL_shutdown)(void *ssl) noexcept nogil
        void *(*SSL_get_rbio)(const void *ssl) noexcept nogil
        int (*SSL_set_session)(void *ssl, void *session) noexcept nogil
        void *(*SSL_get_session)(const void *ssl) noexcept nogil
        void *(*SSL_SESSION_dup)(const void *session) noexcept nogil
        void (*SSL_SESSION_free)(void *session) noexcept nogil
        int (*SSL_SESSION_is_resumable)(const void *session) noexcept nogil
        const void *(*SSL_SESSION_get0_peer)(void *session) noexcept nogil
        void (*SSL_CTX_sess_set_new_cb)(void *context, new_session_fn keep) noexcept nogil
        int (*SSL_session_reused)(const void *ssl) noexcept nogil
        long (*SSL_get_verify_result)(const void *ssl) noexcept nogil
        void *(*SSL_get1_peer_certificate)(const void *ssl) noexcept nogil
        const char *(*SSL_get_version)(const void *ssl) noexcept nogil
        const void *(*SSL_get_current_cipher)(const void *ssl) noexcept nogil
        const char *(*SSL_CIPHER_standard_name)(const void *cipher) noexcept nogil
    OpenSsl openssl
    enum:
        BIO_TYPE_SOURCE_SINK, BIO_FLAGS_READ, BIO_FLAGS_SHOULD_RETRY, BIO_CTRL_FLUSH
        SSL_CTRL_MODE, SSL_CTRL_CLEAR_MODE, SSL_CTRL_SET_SESS_CACHE_MODE, SSL_CTRL_SET_TLSEXT_HOSTNAME, SSL_CTRL_CHAIN_CERT
        SSL_CTRL_SET_MIN_PROTO_VERSION, SSL_CTRL_SET_MAX_PROTO_VERSION
        SSL_MODE_ENABLE_PARTIAL_WRITE, SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER, SSL_MODE_RELEASE_BUFFERS
        SSL_MODE_AUTO_RETRY, SSL_SESS_CACHE_CLIENT, SSL_SESS_CACHE_NO_INTERNAL
        SSL_VERIFY_NONE, SSL_VERIFY_PEER, SSL_VERIFY_FAIL_IF_NO_PEER_CERT
        SSL_ERROR_SSL, SSL_ERROR_WANT_READ, SSL_ERROR_ZERO_RETURN
        X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS, X509_V_FLAG_PARTIAL_CHAIN, NID_SUBJECT_ALT_NAME, TLS1_2, TLS1_3
    uint64_t SSL_OP_NO_COMPRESSION, SSL_OP_PRIORITIZE_CHACHA, SSL_OP_CIPHER_SERVER_PREFERENCE
    uint64_t SSL_OP_NO_RENEGOTIATION
    bint openssl_load(char *why, size_t size)
