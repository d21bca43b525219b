/* SPDX-License-Identifier: Apache-2.0 */
#include "ranks.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "../base/json.h"
#include "../base/text.h"
#include "../gen/places.h"
#include "ranks_module.h"

/* Returns how many ranks mpirun started, from its variable.  Asking MPI itself takes half a second
   and installs MPI's signal handlers. */
static int ranks_started(void) {
    const char *size = getenv("OMPI_COMM_WORLD_SIZE");
    return size != NULL ? atoi(size) : 1;
}

const char *ranks_directory(void) {
    const char *session = getenv("PMIX_SERVER_TMPDIR"), *temporary = getenv("TMPDIR");
    return session != NULL && ranks_started() > 1 ? session
           : temporary != NULL && *temporary      ? temporary
                                                  : "/tmp";
}

/* Loads the module.  Its symbols are global, because Open MPI loads modules that use them. */
static bool load(struct ranks *ranks, struct error *error) {
    struct text path = {0};
    if (!text_print(&path, "%s/ranks_mpi.so", module_directory()))
        return out_of_memory(error);
    void *library = dlopen(path.data, RTLD_NOW | RTLD_GLOBAL);
    text_free(&path);
    if (library != NULL)
        ranks->module = dlsym(library, "kvmill_ranks_module");
    return ranks->module != NULL ||
           fail(error, EXIT_ENVIRONMENT,
                "started by mpirun as %d ranks, but there is no Open MPI in this kvmill: %s; "
                "accepted: a kvmill that was configured --with-mpi, or no mpirun",
                ranks->count, dlerror());
}

bool ranks_open(struct ranks *ranks, struct error *error) {
    *ranks = (struct ranks){.count = ranks_started()};
    if (ranks->count <= 1) {
        ranks->count = 1;
        return true;
    }
    return load(ranks, error) && (ranks->module->open(&ranks->rank, &ranks->count) ||
                                  fail(error, EXIT_ENVIRONMENT, "Open MPI cannot be started"));
}

void ranks_close(struct ranks *ranks) {
    if (ranks->module != NULL)
        ranks->module->close();
    ranks->module = NULL;
}

/* ---- Messages: a line with the head, then the body ---- */

bool ranks_send(const struct ranks *ranks, int to, json_t *head, const char *body,
                struct error *error) {
    struct text text = {0};
    char *line = head != NULL ? json_dumps(head, JSON_COMPACT) : NULL;
    bool done = (line != NULL && text_print(&text, "%s\n", line) &&
                 text_append(&text, body ? body : "", body ? strlen(body) : 0)) ||
                out_of_memory(error);
    done = done &&
           (ranks->module->send(to, text.data, text.length) ||
            fail(error, EXIT_ENVIRONMENT, "rank %d cannot be reached by rank %d", to, ranks->rank));
    json_decref(head);
    free(line);
    text_free(&text);
    return done;
}

bool ranks_receive(const struct ranks *ranks, double seconds, struct message *message) {
    *message = (struct message){0};
    char *text = ranks->module->receive(seconds, &message->from);
    char *end = text != NULL ? strchr(text, '\n') : NULL;
    if (end != NULL) {
        json_watch();
        message->head = json_loadb(text, (size_t)(end - text), 0, NULL);
        message->body = strdup(end + 1);
    }
    free(text);
    if (message->head != NULL && message->body != NULL && !json_lacked())
        return true;
    message_free(message);
    return false;
}

void message_free(struct message *message) {
    json_decref(message->head);
    free(message->body);
    *message = (struct message){0};
}
