/* Pools: each part runs once; seats, pinning, signals, sleep, fork; refusals.  Runs on a pool have
   the bits of runs alone with the number of threads that pays.

   SPDX-License-Identifier: Apache-2.0 */
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../runtime/core/calibration.h"
#include "../runtime/core/pool.h"
#include "../runtime/core/processors.h"
#include "attention_scenes.h"
#include "common.h"

enum { PARTS = 1000, MOST = 8 };

DICE("pool");
static kvmill_error error;

static kvmill_pool *open_pool(int threads, int pinned, int sleeps_at_once) {
    const kvmill_pool_options options = {sizeof options, pinned, sleeps_at_once};
    kvmill_pool *pool;
    if (kvmill_pool_create(threads, &options, &pool, &error) != KVMILL_OK)
        bail_out("a pool of %d: %s", threads, error.message);
    return pool;
}

/* ---- Loops ---- */

static void count_part(void *context, int64_t index) {
    atomic_int *counts = context;
    atomic_fetch_add(&counts[index], 1);
}

/* Whether each part runs once in each of the loops, of all lengths. */
static bool loops_are_whole(kvmill_pool *pool, int loops) {
    static atomic_int counts[PARTS];
    bool whole = true;
    for (int loop = 0; loop < loops; loop++) {
        int64_t parts = loop * 7 % PARTS;
        for (int i = 0; i < PARTS; i++)
            atomic_store(&counts[i], 0);
        kvmill_pool_for(pool, parts, count_part, counts);
        for (int i = 0; i < PARTS; i++)
            whole = whole && atomic_load(&counts[i]) == (i < parts);
    }
    return whole;
}

TEST(loops) {
    static const int threads[] = {1, 2, 3, MOST};
    int loops = is_slow_run() ? 100 : 2000;
    for (int i = 0; i < 8; i++) {
        OWN_POOL kvmill_pool *pool = open_pool(threads[i / 2], 0, i % 2);
        ok(kvmill_pool_threads(pool) == threads[i / 2], "a pool of %d", threads[i / 2]);
        ok(loops_are_whole(pool, loops), "  runs every part once");
        usleep(5000);
        ok(loops_are_whole(pool, 10), "  also after its threads have gone to sleep");
    }
    ok(loops_are_whole(NULL, 10), "no pool: the caller runs them");
    kvmill_pool_destroy(NULL);
}

/* ---- Threads that run parts ---- */

struct team {
    kvmill_pool *pool;
    atomic_int inside, most, there, wrong;
    int wanted;
};

/* Waits until all wanted threads have come, and counts them: too many are noticed. */
static void meet(void *context, int64_t index) {
    struct team *team = context;
    (void)index;
    int inside = atomic_fetch_add(&team->inside, 1) + 1, most = atomic_load(&team->most);
    while (inside > most && !atomic_compare_exchange_weak(&team->most, &most, inside))
        ;
    atomic_fetch_add(&team->there, 1);
    for (int i = 0; i < 5000 && atomic_load(&team->there) < team->wanted; i++)
        usleep(1000);
    usleep(500);
    atomic_fetch_sub(&team->inside, 1);
}

TEST(seats) {
    OWN_POOL kvmill_pool *pool = open_pool(MOST, 0, 0);
    for (int wanted = 1; wanted <= MOST; wanted += 3) {
        struct team team = {.wanted = wanted};
        ok(kvmill_pool_take(pool), "a pool is taken");
        kvmill_pool_loop(pool, wanted, 4 * MOST, meet, &team);
        kvmill_pool_give(pool);
        ok(team.most == wanted, "  for %d of its %d threads: %d came", wanted, (int)MOST,
           team.most);
    }
}

/* Runs a loop in a part of a loop: the pool is busy. */
static void loop_again(void *context, int64_t index) {
    struct team *team = context;
    atomic_int counts[3] = {0};
    (void)index;
    kvmill_pool_for(team->pool, 3, count_part, counts);
    atomic_fetch_add(&team->there, 1);
    for (int i = 0; i < 3; i++)
        atomic_fetch_add(&team->wrong, atomic_load(&counts[i]) != 1);
}

TEST(busy) {
    struct team team = {.pool = open_pool(3, 0, 0)};
    kvmill_pool_for(team.pool, 50, loop_again, &team);
    ok(team.wrong == 0 && team.there == 50, "a loop in a part of a loop is its caller's alone");
    kvmill_pool_destroy(team.pool);
}

/* Helpers, which are not the caller's thread, by processor; and how many are not on one processor
   (wrong), or do not block signals (loud). */
struct places {
    pthread_t caller;
    atomic_int there, wrong, loud;
    atomic_int users[CPU_SETSIZE];
    int threads;
};

static void look_around(void *context, int64_t index) {
    struct places *places = context;
    cpu_set_t set;
    sigset_t blocked;
    (void)index;
    if (!pthread_equal(pthread_self(), places->caller)) {
        sched_getaffinity(0, sizeof set, &set);
        pthread_sigmask(SIG_BLOCK, NULL, &blocked);
        places->loud += !sigismember(&blocked, SIGINT) || !sigismember(&blocked, SIGALRM);
        places->wrong += CPU_COUNT(&set) != 1;
        for (int i = 0; i < CPU_SETSIZE; i++)
            if (CPU_ISSET((size_t)i, &set))
                places->users[i]++;
    }
    atomic_fetch_add(&places->there, 1);
    while (atomic_load(&places->there) < places->threads)
        usleep(100);
}

TEST(pinned) {
    static struct processors processors;
    static struct places places;
    kvmill_find_processors(&processors);
    ok(processors.cores >= 1 && processors.cores <= processors.count &&
           processors.count <= sysconf(_SC_NPROCESSORS_CONF),
       "%d processors of %d cores", processors.count, processors.cores);
    OWN_POOL kvmill_pool *pool = open_pool(processors.count, 1, 0);
    places.caller = pthread_self();
    places.threads = processors.count;
    kvmill_pool_for(pool, processors.count, look_around, &places);
    int alone = 0;
    for (int i = 1; i < processors.count; i++)
        alone += places.users[processors.number[i]] == 1;
    ok(places.wrong == 0 && alone == processors.count - 1 &&
           places.users[processors.number[0]] == 0,
       "pinned threads have a processor each, and leave the first to the caller");
    ok(places.loud == 0, "signals go to others");
}

/* A process that may use only one processor has one thread. */
TEST(count) {
    cpu_set_t all, one;
    struct processors processors;
    sched_getaffinity(0, sizeof all, &all);
    kvmill_find_processors(&processors);
    CPU_ZERO(&one);
    CPU_SET((size_t)processors.number[processors.count - 1], &one);
    kvmill_pool *pool = open_pool(0, 0, 0);
    ok(kvmill_pool_threads(pool) == processors.cores, "a pool of 0 has a thread for each core");
    kvmill_pool_destroy(pool);
    sched_setaffinity(0, sizeof one, &one);
    pool = open_pool(0, 0, 0);
    sched_setaffinity(0, sizeof all, &all);
    ok(kvmill_pool_threads(pool) == 1, "  of those that the process may run on");
    kvmill_pool_destroy(pool);
}

/* ---- Sleep and end ---- */

static double processor_seconds(void) {
    struct timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

TEST(sleep) {
    for (int at_once = 0; at_once < 2; at_once++) {
        OWN_POOL kvmill_pool *pool = open_pool(MOST, 0, at_once);
        loops_are_whole(pool, 20);
        usleep(20000);
        double before = processor_seconds();
        usleep(100000);
        double used = processor_seconds() - before;
        ok(used < 0.02, "idle threads sleep");
        diag("%.4f s of 0.1", used);
    }
}

TEST(fork) {
    kvmill_pool *pool = open_pool(3, 0, 0);
    int wrong = 0;
    for (int i = 0; i < 10; i++) {
        int status = 1;
        loops_are_whole(pool, 5);
        usleep((unsigned)i * 10);
        pid_t child = fork();
        if (child == 0) {
            alarm(20);
            bool whole = loops_are_whole(pool, 5);
            kvmill_pool_destroy(pool);
            _exit(!whole);
        }
        waitpid(child, &status, 0);
        wrong += status != 0;
    }
    ok(wrong == 0, "a child of fork loops alone, and ends the pool");
    ok(loops_are_whole(pool, 5), "  which its parent still has");
    kvmill_pool_destroy(pool);
}

/* ---- Refusals ---- */

static void refuse(int threads, int pinned, kvmill_status wanted, const char *words) {
    const kvmill_pool_options options = {sizeof options, pinned, 0};
    kvmill_pool *pool = (kvmill_pool *)(void *)&dice;
    kvmill_status status = kvmill_pool_create(threads, &options, &pool, &error);
    ok_status(status, wanted, &error, words, "a pool of %d%s", threads, pinned ? ", pinned" : "");
    ok(pool == NULL, "  is none");
}

TEST(refusals) {
    refuse(-1, 0, KVMILL_E_ATTRIBUTE, "threads is -1; accepted: 0 to 4096");
    refuse(4097, 0, KVMILL_E_ATTRIBUTE, "threads is 4097; accepted: 0 to 4096");
    refuse(4096, 1, KVMILL_E_ATTRIBUTE,
           "threads is 4096; accepted with options.pinned on this machine: 0 to ");
    OWN_POOL kvmill_pool *pool = open_pool(1, 0, 0);
    ok_status(kvmill_run_on(NULL, pool, NULL, 0, NULL, &error), KVMILL_E_NULL, &error,
              "plan is NULL", "a run of no plan");
}

#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
#define SANITIZED true
#elif defined __has_feature
#define SANITIZED (__has_feature(address_sanitizer) || __has_feature(thread_sanitizer))
#else
#define SANITIZED false
#endif

/* A thread's stack needs memory. */
TEST(no_threads) {
    struct rlimit before, little = {64 << 20, 64 << 20};
    if (SANITIZED || is_slow_run()) {
        skip_test("a system without threads: not here, where memory is watched");
        return;
    }
    getrlimit(RLIMIT_AS, &before);
    little.rlim_max = before.rlim_max;
    setrlimit(RLIMIT_AS, &little);
    refuse(1000, 0, KVMILL_E_MEMORY, " of 1000 cannot be started: ");
    setrlimit(RLIMIT_AS, &before);
    OWN_POOL kvmill_pool *pool = open_pool(2, 0, 0);
    ok(loops_are_whole(pool, 5), "  but with memory again there is one");
}

/* The processor that no thread can be pinned to, or -1. */
static int forbidden = -1;

/* Used instead of the C library's function, which it calls. */
int pthread_setaffinity_np(pthread_t thread, size_t size, const cpu_set_t *set) {
    int (*usual)(pthread_t, size_t, const cpu_set_t *);
    void *found = dlsym(RTLD_NEXT, "pthread_setaffinity_np");
    memcpy(&usual, &found, sizeof usual);
    return forbidden >= 0 && CPU_ISSET((size_t)forbidden, set) ? EINVAL : usual(thread, size, set);
}

TEST(no_processor) {
    static struct processors processors;
    char words[64];
    kvmill_find_processors(&processors);
    if (processors.count < 2) {
        skip_test("a processor that is taken away: there is one");
        return;
    }
    forbidden = processors.number[processors.count - 1];
    snprintf(words, sizeof words, "thread %d of %d cannot be started: ", processors.count,
             processors.count);
    refuse(processors.count, 1, KVMILL_E_MEMORY, words);
    forbidden = -1;
}

/* ---- Runs ---- */

/* Returns a decoding layer over this many positions. */
static struct attention layer(int64_t positions) {
    struct attention a =
        attention_scene(S, F16 "T2=float16 num_heads=8 num_kv_heads=4 head_dim=32 query_size=2");
    a.start[0] = positions - 1;
    return a;
}

static kvmill_plan *plan_of(const struct attention *a, int threads) {
    const kvmill_plan_options options = {.struct_size = sizeof options, .threads = threads};
    kvmill_plan *plan;
    must(attention_plan(a, &options, &plan, &error) == KVMILL_OK, error.message);
    return plan;
}

static int threads_worth(const struct attention *a, const kvmill_plan *plan,
                         const kvmill_pool *pool, void *workspace) {
    kvmill_call call;
    int most = 1;
    if (kvmill_begin(&call, plan, a->given, TENSORS, workspace, NULL) != KVMILL_OK)
        return 0;
    do {
        int threads = kvmill_threads_worth(&call, pool);
        most = threads > most ? threads : most;
    } while (kvmill_next(&call));
    return most;
}

struct user {
    struct attention a;
    const kvmill_plan *plan;
    kvmill_pool *pool;
    struct fence workspace;
    bool good;
};

static void use_pool(void *context, int64_t index) {
    struct user *user = &((struct user *)context)[index];
    user->good = true;
    for (int i = 0; i < 5; i++)
        user->good = user->good && kvmill_run_on(user->plan, user->pool, user->a.given, TENSORS,
                                                 user->workspace.data, NULL) == KVMILL_OK;
}

static void open_user(struct user *user, int64_t positions, const kvmill_plan *plan,
                      kvmill_pool *pool) {
    user->a = layer(positions);
    user->plan = plan;
    user->pool = pool;
    attention_open(&user->a, &dice);
    fence_open(&user->workspace, kvmill_plan_workspace_size(plan), 0, FENCE_ABOVE, &dice);
}

static bool is_same(const struct user *user, const struct user *other) {
    int64_t where;
    return tensor_is_equal(&user->a.tensor[KVMILL_CACHE_ATTENTION_ATTN_OUTPUT],
                           &other->a.tensor[KVMILL_CACHE_ATTENTION_ATTN_OUTPUT], &where);
}

/* Two users run at the same time, and one runs alone. */
static void run_users(int64_t positions, int planned, int pool_threads, int worth) {
    static struct user users[3];
    const struct dice start = dice;
    struct attention a = layer(positions);
    OWN_PLAN kvmill_plan *plan = plan_of(&a, planned);
    OWN_POOL kvmill_pool *pool = open_pool(pool_threads, 0, 0);
    for (int i = 0; i < 3; i++) {
        dice = start;
        open_user(&users[i], positions, plan, pool);
    }
    bool alone =
        kvmill_run(plan, users[2].a.given, TENSORS, users[2].workspace.data, NULL) == KVMILL_OK;
    crew_share(2, 2, use_pool, users);
    ok(alone && users[0].good && users[1].good && is_same(&users[0], &users[2]) &&
           is_same(&users[1], &users[2]),
       "%lld positions on %d threads have the bits of one, and so has a run beside it",
       (long long)positions, pool_threads);
    int got = threads_worth(&users[0].a, plan, pool, users[0].workspace.data);
    ok(got == worth, "  planned for %d, they are worth %d", planned, got);
    ok_status(
        kvmill_run_on(plan, pool, users[0].a.given, TENSORS - 1, users[0].workspace.data, &error),
        KVMILL_E_ATTRIBUTE, &error, "tensor_count is", "  and refuse what kvmill_run does");
    for (int i = 0; i < 3; i++) {
        fence_close(&users[i].workspace);
        attention_close(&users[i].a);
    }
}

TEST(runs) {
    run_users(2, MOST, MOST, 1);
    run_users(511, MOST, MOST, 1);
    run_users(512, MOST, MOST, 2);
    run_users(1024, MOST, MOST, 4);
    run_users(2048, MOST, MOST, MOST);
    run_users(1024, 3, MOST, 3);
    run_users(1024, MOST, 2, 2);
    run_users(1024, MOST, 1, 1);
    run_users(1 << 14, MOST, MOST, MOST); /* in pieces, whose results are merged */
}

/* The work that wakes a thread is that of the calibration. */
TEST(sleepers) {
    struct calibration before = *kvmill_calibration(), set = before;
    struct attention a = layer(2048);
    OWN_PLAN kvmill_plan *plan = plan_of(&a, MOST);
    OWN_POOL kvmill_pool *pool = open_pool(MOST, 0, 1);
    struct user user;
    open_user(&user, 2048, plan, pool);
    int got = threads_worth(&user.a, plan, pool, user.workspace.data);
    ok(got == 1, "threads that sleep are not worth waking for what keeps %d busy", MOST);
    set.asleep = 1 << 20;
    kvmill_calibration_set(&set);
    got = threads_worth(&user.a, plan, pool, user.workspace.data);
    ok(got == 2, "  if the calibration says that they are, %d run", got);
    kvmill_calibration_set(&before);
    fence_close(&user.workspace);
    attention_close(&user.a);
}
