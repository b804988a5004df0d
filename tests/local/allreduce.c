/* Sums the ranks with MPI_Allreduce, so that every rank must have met every other.
   `allreduce exit R` and `allreduce abort R` end rank R badly while the others wait. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv) {
    int rank, size, sum = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    printf("mpi rank %d of %d sum %d, RANK %s LOCAL_RANK %s NODE_RANK %s OMPI_COMM_WORLD_LOCAL_RANK %s\n", rank,
           size, sum, getenv("RANK"), getenv("LOCAL_RANK"), getenv("NODE_RANK"),
           getenv("OMPI_COMM_WORLD_LOCAL_RANK"));
    fflush(stdout);
    if (argc > 2) {
        if (rank == atoi(argv[2])) {
            if (strcmp(argv[1], "abort") == 0) MPI_Abort(MPI_COMM_WORLD, 7);
            _exit(5);
        }
        sleep(600);
    }
    MPI_Finalize();
    return 0;
}
