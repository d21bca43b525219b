/* SPDX-License-Identifier: Apache-2.0 */
#include "reading.h"

#include "../ops/fail.h"

locale_t reading_begin(void) {
    locale_t points = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    return points == (locale_t)0 ? points : uselocale(points);
}

void reading_end(locale_t before) {
    if (before != (locale_t)0)
        freelocale(uselocale(before));
}

kvmill_status reading_status(bool done, const struct error *reason, kvmill_error *error) {
    if (done)
        return kvmill_succeed(error);
    bool is_of_check = reason->status != KVMILL_OK;
    bool is_users = reason->exit_code == EXIT_USER;
    kvmill_status status = is_of_check ? (kvmill_status)reason->status
                           : is_users  ? KVMILL_E_ATTRIBUTE
                                       : KVMILL_E_MEMORY;
    return kvmill_fail(error, status, "%s", reason->text);
}
