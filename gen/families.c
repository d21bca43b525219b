/* SPDX-License-Identifier: Apache-2.0 */
#include "families.h"

#include "attend_family.h"
#include "convert_family.h"
#include "flow_program_family.h"
#include "gather_family.h"
#include "rows_family.h"
#include "scatter_family.h"
#include "scatter_region_family.h"
#include "score_family.h"
#include "select_family.h"

/* A name that begins with another family's name comes before it. */
static const struct family *const families[] = {
    &store_rows_family,  &keep_rows_family,    &write_rows_family,     &read_rows_family,
    &attend_family,      &gather_family,       &scatter_region_family, &scatter_family,
    &score_pages_family, &select_pages_family, &flow_program_family};

const struct family *family_at(size_t i) {
    return i < sizeof families / sizeof *families ? families[i] : NULL;
}
