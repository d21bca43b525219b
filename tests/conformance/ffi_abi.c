/* Compares kvmill_ffi.h with jaxlib's header: structs have the same layout, and constants the same
   values, in pairs that ffi_layout.tsv lists.

   SPDX-License-Identifier: Apache-2.0 */
#include <kvmill_ffi.h>
#include <xla/ffi/api/c_api.h>

#define SAME(OURS, MEMBER, THEIRS, THEIR_MEMBER)                                                   \
    _Static_assert(offsetof(OURS, MEMBER) == offsetof(THEIRS, THEIR_MEMBER) &&                     \
                       sizeof(((OURS *)0)->MEMBER) == sizeof(((THEIRS *)0)->THEIR_MEMBER),         \
                   #THEIRS "." #THEIR_MEMBER);
#define SAME_NUMBER(OURS, THEIRS) _Static_assert((int)OURS == (int)THEIRS, #THEIRS);
#define TYPE(THEIRS, CODE, BITS)
#include "ffi_layout.h"

#undef SAME
#undef SAME_NUMBER
#undef TYPE
#define SAME(OURS, MEMBER, THEIRS, THEIR_MEMBER)
#define SAME_NUMBER(OURS, THEIRS)
#define TYPE(THEIRS, CODE, BITS) {THEIRS, {CODE, BITS, 1}},
static const struct {
    int32_t number;
    DLDataType dtype;
} types[] = {
#include "ffi_layout.h"
};

/* Exits with 0 if every number means the same type in both, and no other number up to 255 means a
   type. */
int main(void) {
    size_t known = 0, count = sizeof types / sizeof *types;
    DLDataType dtype;
    for (int32_t number = -1; number < 256; number++)
        known += (size_t)kvmill_ffi_dtype(number, &dtype);
    for (size_t i = 0; i < count; i++)
        if (!kvmill_ffi_dtype(types[i].number, &dtype) || dtype.code != types[i].dtype.code ||
            dtype.bits != types[i].dtype.bits || dtype.lanes != 1) {
            printf("XLA's type number %d\n", (int)types[i].number);
            return 1;
        }
    printf("%zu types are known, %zu are checked\n", known, count);
    return known != count;
}
