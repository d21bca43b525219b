/* The type codes that kvmill.h defines equal those of newer DLPack versions, and do not collide
   with them.

   SPDX-License-Identifier: Apache-2.0 */
#include <kvmill.h>

_Static_assert(KVMILL_DL_BOOL == kDLBool, "bool");
_Static_assert(KVMILL_DL_FLOAT8_E3M4 == kDLFloat8_e3m4, "float8 e3m4");
_Static_assert(KVMILL_DL_FLOAT8_E4M3 == kDLFloat8_e4m3, "float8 e4m3");
_Static_assert(KVMILL_DL_FLOAT8_E4M3B11FNUZ == kDLFloat8_e4m3b11fnuz, "float8 e4m3b11fnuz");
_Static_assert(KVMILL_DL_FLOAT6_E2M3FN == kDLFloat6_e2m3fn, "float6 e2m3fn");
_Static_assert(KVMILL_DL_FLOAT6_E3M2FN == kDLFloat6_e3m2fn, "float6 e3m2fn");
_Static_assert(KVMILL_DL_FLOAT8_E4M3FN == kDLFloat8_e4m3fn, "float8 e4m3fn");
_Static_assert(KVMILL_DL_FLOAT8_E4M3FNUZ == kDLFloat8_e4m3fnuz, "float8 e4m3fnuz");
_Static_assert(KVMILL_DL_FLOAT8_E5M2 == kDLFloat8_e5m2, "float8 e5m2");
_Static_assert(KVMILL_DL_FLOAT8_E5M2FNUZ == kDLFloat8_e5m2fnuz, "float8 e5m2fnuz");
_Static_assert(KVMILL_DL_FLOAT8_E8M0FNU == kDLFloat8_e8m0fnu, "float8 e8m0fnu");
_Static_assert(KVMILL_DL_FLOAT4_E2M1FN == kDLFloat4_e2m1fn, "float4 e2m1fn");

/* kvmill's tensors are DLPack's, whatever its version. */
_Static_assert(_Generic(((kvmill_tensor_scatter *)0)->past_cache, const DLTensor * : 1,
                        default : 0),
               "tensors");
