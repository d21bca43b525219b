/* What a program with DLPack version 1 includes: the system's header, and the type codes that were
   added later.  For tests only.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TESTS_DLPACK_1X_H
#define KVMILL_TESTS_DLPACK_1X_H

#include_next <dlpack/dlpack.h>

#ifndef DLPACK_MAJOR_VERSION /* otherwise the header has them */
enum {
    kDLBool = 6,
    kDLFloat8_e3m4 = 7,
    kDLFloat8_e4m3 = 8,
    kDLFloat8_e4m3b11fnuz = 9,
    kDLFloat8_e4m3fn = 10,
    kDLFloat8_e4m3fnuz = 11,
    kDLFloat8_e5m2 = 12,
    kDLFloat8_e5m2fnuz = 13,
    kDLFloat8_e8m0fnu = 14,
    kDLFloat6_e2m3fn = 15,
    kDLFloat6_e3m2fn = 16,
    kDLFloat4_e2m1fn = 17
};
#endif

#endif
