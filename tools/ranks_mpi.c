/* Implements ranks by Open MPI.  The only file that uses MPI, built as a separate module.

   SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <mpi.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ranks_module.h"

enum { TAG = 1, PAUSE = 5000000 /* nanoseconds */, MOST_SECONDS = 30 };

/* Sets parameters, unless the user has set them: no signal handlers, because kvmill handles crashes
   of candidates itself; and no reading of other processes' memory, which many containers forbid. */
static void set_parameters(void) {
    setenv("OMPI_MCA_opal_signal", "", 0);
    setenv("OMPI_MCA_btl_vader_single_copy_mechanism", "none", 0);
}

/* Starts MPI.  Errors are returned, so that a lost rank does not end the others. */
static bool open_ranks(int *rank, int *count) {
    set_parameters();
    return MPI_Init(NULL, NULL) == MPI_SUCCESS &&
           MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN) == MPI_SUCCESS &&
           MPI_Comm_rank(MPI_COMM_WORLD, rank) == MPI_SUCCESS &&
           MPI_Comm_size(MPI_COMM_WORLD, count) == MPI_SUCCESS;
}

static void close_ranks(void) {
    MPI_Finalize();
}

/* Sleeps for a moment, because MPI's own waiting keeps a processor busy.  Returns false after a
   signal. */
static bool doze(double *seconds) {
    const struct timespec pause = {.tv_nsec = PAUSE};
    *seconds -= PAUSE / 1e9;
    return nanosleep(&pause, NULL) == 0;
}

/* Sends a text.  Returns false if the rank does not take it in time, because it is lost.  The copy
   is then not freed: MPI may still use it. */
static bool send_text(int to, const char *data, size_t length) {
    double seconds = MOST_SECONDS;
    MPI_Request request;
    int done = 0;
    char *copy = malloc(length + 1);
    if (copy == NULL)
        return false;
    memcpy(copy, data, length);
    if (MPI_Isend(copy, (int)length, MPI_CHAR, to, TAG, MPI_COMM_WORLD, &request) != MPI_SUCCESS)
        return false;
    while (MPI_Test(&request, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && !done && seconds > 0)
        doze(&seconds);
    if (done)
        free(copy);
    return done;
}

static char *take(const MPI_Status *status) {
    int length = 0;
    MPI_Get_count(status, MPI_CHAR, &length);
    char *text = malloc((size_t)length + 1);
    if (text != NULL && MPI_Recv(text, length, MPI_CHAR, status->MPI_SOURCE, TAG, MPI_COMM_WORLD,
                                 MPI_STATUS_IGNORE) == MPI_SUCCESS) {
        text[length] = '\0';
        return text;
    }
    free(text);
    return NULL;
}

static char *receive_text(double seconds, int *from) {
    MPI_Status status;
    int found = 0;
    do {
        if (MPI_Iprobe(MPI_ANY_SOURCE, TAG, MPI_COMM_WORLD, &found, &status) == MPI_SUCCESS &&
            found) {
            *from = status.MPI_SOURCE;
            return take(&status);
        }
    } while (seconds > 0 && doze(&seconds));
    return NULL;
}

const struct ranks_module kvmill_ranks_module = {
    .open = open_ranks,
    .close = close_ranks,
    .send = send_text,
    .receive = receive_text,
};
