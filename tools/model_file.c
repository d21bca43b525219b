/* SPDX-License-Identifier: Apache-2.0 */
#include "model_file.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../base/output.h"
#include "../gen/places.h"

static const char folder[] = "configs/models", ending[] = ".json";

/* ---- Names ---- */

static int is_config(const struct dirent *entry) {
    return name_has_ending(entry->d_name, ending);
}

bool model_names_read(struct model_names *names, struct error *error) {
    struct dirent **found = NULL;
    *names = (struct model_names){0};
    char *directory = path_join(data_directory(), folder);
    int count = directory != NULL ? scandir(directory, &found, is_config, alphasort) : 0;
    bool done = directory != NULL && (count >= 0 || errno != ENOMEM);
    names->items = done ? calloc((size_t)(count > 0 ? count : 0) + 1, sizeof *names->items) : NULL;
    done = names->items != NULL;
    for (int i = 0; i < count; i++) {
        const char *name = found[i]->d_name;
        char *copy = done ? strndup(name, strlen(name) - strlen(ending)) : NULL;
        done = copy != NULL;
        if (done)
            names->items[names->count++] = copy;
        free(found[i]);
    }
    free(found);
    free(directory);
    return done || out_of_memory(error);
}

void model_names_free(struct model_names *names) {
    for (int i = 0; i < names->count; i++)
        free(names->items[i]);
    free(names->items);
    *names = (struct model_names){0};
}

/* ---- Refusals ---- */

/* Whether the name has the ending of a model file.  If the file does not exist, its reader reports
   that. */
static bool is_file_name(const char *given) {
    static const char *const endings[] = {".json", ".gguf", ".onnx", ".mlir", ".mlirbc", NULL};
    for (int i = 0; endings[i] != NULL; i++)
        if (name_has_ending(given, endings[i]))
            return true;
    return false;
}

/* Whether the name has the form of a Hugging Face model, "meta-llama/Llama-3.1-8B". */
static bool is_id(const char *given) {
    const char *slash = strchr(given, '/');
    return slash != NULL && slash > given && slash[1] != '\0' && strchr(slash + 1, '/') == NULL &&
           given[0] != '.' && given[0] != '~';
}

static char *refuse_id(const char *given, struct error *error) {
    fail(error, EXIT_USER,
         "--model: \"%.200s\" is not a file or directory, and kvmill downloads no models; "
         "accepted: a directory with the model's config.json, as `hf download %.200s config.json "
         "--local-dir DIR` makes it",
         given, given);
    return NULL;
}

static char *refuse_name(const char *given, struct error *error) {
    struct model_names names;
    struct text list = {0};
    char suggestion[SUGGESTION_SIZE] = "";
    if (model_names_read(&names, error)) {
        bool done = text_print(&list, "a config.json, a directory that holds one");
        for (int i = 0; done && i < names.count; i++)
            done = text_print(&list, "%s %s", i == 0 ? ", or one of" : ",", names.items[i]);
        suggest_word(given, (const char *const *)names.items, suggestion);
        if (done)
            fail(error, EXIT_USER,
                 "--model: \"%.100s\" is neither a file nor the name of a model that comes with "
                 "kvmill; %saccepted: %s",
                 given, suggestion, list.data);
        else
            out_of_memory(error);
    }
    text_free(&list);
    model_names_free(&names);
    return NULL;
}

static char *refuse_directory(const char *given, struct error *error) {
    fail(error, EXIT_USER, "%.400s: is a directory without a config.json; accepted: a model's",
         given);
    return NULL;
}

/* ---- Finding the file ---- */

static char *copy_of(const char *path, struct error *error) {
    char *copy = strdup(path);
    if (copy == NULL)
        out_of_memory(error);
    return copy;
}

/* Sets *found to the path of a file, or to NULL if the file does not exist.  Returns false if out
   of memory. */
static bool find_file(const char *directory, const char *name, char **found, struct error *error) {
    char *path = path_join(directory, name);
    bool is_there = path != NULL && access(path, F_OK) == 0;
    *found = is_there ? path : NULL;
    if (!is_there)
        free(path);
    return path != NULL || out_of_memory(error);
}

static bool find_named(const char *given, char **found, struct error *error) {
    struct text name = {0};
    *found = NULL;
    if (*given == '\0' || strchr(given, '/') != NULL)
        return true;
    bool done = (text_print(&name, "%s/%s%s", folder, given, ending) || out_of_memory(error)) &&
                find_file(data_directory(), name.data, found, error);
    text_free(&name);
    return done;
}

char *model_file(const char *given, struct error *error) {
    struct stat status;
    char *found = NULL;
    bool is_there = stat(given, &status) == 0;
    if (is_file_name(given) || (is_there && !S_ISDIR(status.st_mode)))
        return copy_of(given, error);
    if (is_there && !find_file(given, "config.json", &found, error))
        return NULL;
    if (found == NULL && !find_named(given, &found, error))
        return NULL;
    if (found != NULL)
        return found;
    if (is_there)
        return refuse_directory(given, error);
    return is_id(given) ? refuse_id(given, error) : refuse_name(given, error);
}
