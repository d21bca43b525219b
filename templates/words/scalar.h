/* scalar.h -- plain C, in vectors of four lanes.

   SPDX-License-Identifier: Apache-2.0 */
#include "vector4.h"
