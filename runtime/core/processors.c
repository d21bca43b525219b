/* SPDX-License-Identifier: Apache-2.0 */
#include "processors.h"

#include <string.h>

#ifdef KVMILL_HWLOC
#include <hwloc.h>
#endif

static void add(struct processors *processors, cpu_set_t *left, int number) {
    CPU_CLR((size_t)number, left);
    processors->number[processors->count++] = number;
}

#ifdef KVMILL_HWLOC

/* The first processor of the core that is still in the set. */
static void add_core(struct processors *processors, cpu_set_t *left, hwloc_obj_t core) {
    unsigned number;
    hwloc_bitmap_foreach_begin(number, core->cpuset) {
        if (number < CPU_SETSIZE && CPU_ISSET(number, left)) {
            add(processors, left, (int)number);
            return;
        }
    }
    hwloc_bitmap_foreach_end();
}

static void add_cores(struct processors *processors, cpu_set_t *left) {
    hwloc_topology_t topology;
    if (hwloc_topology_init(&topology) != 0)
        return;
    hwloc_topology_set_io_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_NONE);
    hwloc_obj_t core = NULL;
    if (hwloc_topology_load(topology) == 0)
        while ((core = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_CORE, core)) != NULL)
            add_core(processors, left, core);
    hwloc_topology_destroy(topology);
}

#else

static void add_cores(struct processors *processors, cpu_set_t *left) {
    (void)processors, (void)left;
}

#endif

void kvmill_find_processors(struct processors *processors) {
    cpu_set_t left;
    processors->count = 0;
    if (sched_getaffinity(0, sizeof left, &left) != 0) /* more processors than a cpu_set_t holds */
        memset(&left, 0xff, sizeof left);
    add_cores(processors, &left);
    processors->cores = processors->count;
    for (int i = 0; i < CPU_SETSIZE; i++)
        if (CPU_ISSET((size_t)i, &left))
            add(processors, &left, i);
    if (processors->cores == 0)
        processors->cores = processors->count;
}
