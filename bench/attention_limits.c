/* SPDX-License-Identifier: Apache-2.0 */
#include "attention_limits.h"

static const int64_t read_bytes = 32 << 20; /* of one sample of reading */

void run_reader(void *context, int64_t k) {
    struct reader *reader = context;
    (void)k;
    reader->bytes = read_bytes;
    const unsigned char *from = attention_next_bytes(reader->scene, &reader->bytes);
    const struct reading reading = {(const char *)from, (size_t)reader->bytes, reader->streams,
                                    reader->pool};
    limit_read(&reading);
}

void run_copier(void *context, int64_t k) {
    struct copier *copier = context;
    (void)k;
    int64_t bytes = copier->bytes;
    const struct copy copy = {
        (char *)attention_next_bytes(copier->scene, &bytes),
        (const char *)attention_next_activations(copier->scene, copier->bytes), (size_t)bytes,
        copier->pool};
    copier->copy(&copy);
}

void run_adder(void *context, int64_t k) {
    struct adder *adder = context;
    (void)k;
    adder->count = limit_multiply_add(adder->peak, adder->pool);
}
