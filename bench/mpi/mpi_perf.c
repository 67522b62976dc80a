/* Times MPI's collectives by the method of ucxring_perf, and prints the same document (docs/benchmarks.md).
 *
 *   mpiexec -n 2 mpi_perf COLLECTIVE [-b MIN] [-e MAX] [-f FACTOR] [-d DTYPE] [-o OP] [-r ROOT] [-c 0|1]
 *           [-n ITERS | --time-per-size MS] [-w WARMUP] [--trials N] [--in-place] [--out-of-place]
 *
 * It needs nothing but MPI: cc -O2 -std=c11 mpi_perf.c, with the headers and the library to measure.
 * Exit status: 0 right, 1 wrong elements, 2 bad usage.
 */
#define _XOPEN_SOURCE 700

#include <sys/resource.h>
#include <time.h>

#include "inputs.h"

enum { RIGHT = 0, WRONG = 1, PAGE = 4096, POISON = 0xa5 };

typedef struct {
  const Options* options;
  size_t bytes, part; /* of the whole vector, of one rank's part */
  bool in_place;
  unsigned char *input, *output;
} Call;

static bool reduces(Collective collective) {
  return collective == ALL_REDUCE || collective == REDUCE_SCATTER;
}
static bool divides(Collective collective) {
  return collective == ALL_GATHER || collective == REDUCE_SCATTER;
}

static void repeat(const Call* call, long times) {
  const Options* options = call->options;
  const int count = (int)(call->bytes / options->element_bytes);
  const int part = (int)(call->part / options->element_bytes);
  const void* input = call->in_place ? MPI_IN_PLACE : call->input;
  void* output = call->output;
  switch (options->collective) {
    case ALL_REDUCE:
      for (long i = 0; i < times; ++i)
        MPI_Allreduce(input, output, count, options->type, options->op, MPI_COMM_WORLD);
      return;
    case BROADCAST:
      for (long i = 0; i < times; ++i) MPI_Bcast(output, count, options->type, options->root, MPI_COMM_WORLD);
      return;
    case ALL_GATHER:
      for (long i = 0; i < times; ++i)
        MPI_Allgather(input, part, options->type, output, part, options->type, MPI_COMM_WORLD);
      return;
    case REDUCE_SCATTER:
      for (long i = 0; i < times; ++i)
        MPI_Reduce_scatter_block(input, output, part, options->type, options->op, MPI_COMM_WORLD);
      return;
    default:
      for (long i = 0; i < times; ++i) MPI_Barrier(MPI_COMM_WORLD);
  }
}

static void prepare(const Call* call) {
  const Collective collective = call->options->collective;
  const size_t input_bytes = collective == ALL_GATHER ? call->part : call->bytes;
  unsigned char* input = call->input;
  if (collective == BROADCAST) input = call->output;
  if (call->in_place) input = call->output + (collective == ALL_GATHER ? (size_t)rank * call->part : 0);
  memset(call->output, POISON, call->bytes);
  fill(call->options, input, input_bytes, reduces(collective) ? CONTRIBUTION : ARBITRARY, rank);
}

/* One call on fresh inputs; the number of wrong elements on this rank. */
static long check(const Call* call) {
  prepare(call);
  repeat(call, 1);
  long wrong = 0;
  switch (call->options->collective) {
    case ALL_REDUCE:
      return count_wrong(call->options, call->output, call->bytes, REDUCTION, 0, 0);
    case BROADCAST:
      return count_wrong(call->options, call->output, call->bytes, ARBITRARY, call->options->root, 0);
    case ALL_GATHER:
      for (int r = 0; r < world_size; ++r)
        wrong +=
            count_wrong(call->options, call->output + (size_t)r * call->part, call->part, ARBITRARY, r, 0);
      return wrong;
    case REDUCE_SCATTER:
      return count_wrong(call->options, call->output, call->part, REDUCTION, 0,
                         (size_t)rank * call->part / call->options->element_bytes);
    default:
      return 0;
  }
}

/* --- timing --- */

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static double cpu_seconds(void) {
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
         (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e-6;
}

static double time_trial(const Call* call, long iterations) {
  MPI_Barrier(MPI_COMM_WORLD);
  const double begin = now();
  repeat(call, iterations);
  return now() - begin;
}

static long find_iterations(const Call* call, double wanted) {
  for (long iterations = 1;; iterations *= 10) {
    double spent = time_trial(call, iterations);
    MPI_Allreduce(MPI_IN_PLACE, &spent, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    const double enough = (double)iterations * wanted / (spent > 1e-9 ? spent : 1e-9);
    if (spent > 0.1 * wanted || iterations >= 1000000000) return enough < 1 ? 1 : (long)(enough + 0.5);
  }
}

static int compare(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

/* Prints the row of one size on rank 0, and returns the wrong elements of all ranks. */
static long measure(const Call* call, bool first) {
  const Options* options = call->options;
  long wrong = options->check ? check(call) : 0;
  if (!options->check) prepare(call);
  repeat(call, options->warmup);
  const long iterations = options->time_per_size > 0
                              ? find_iterations(call, options->time_per_size / options->trials)
                              : options->iterations;
  double* samples = malloc((size_t)options->trials * sizeof(double));
  double cpu = -cpu_seconds();
  for (int i = 0; i < options->trials; ++i)
    samples[i] = time_trial(call, iterations) * 1e6 / (double)iterations;
  cpu += cpu_seconds();
  if (options->check) wrong += check(call);
  MPI_Allreduce(MPI_IN_PLACE, samples, options->trials, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  MPI_Allreduce(MPI_IN_PLACE, &cpu, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0) {
    const double volume = (double)call->bytes * (double)iterations * options->trials;
    printf("%s\n  {\"bytes\": %zu, \"in_place\": %s, \"iterations\": %ld, \"samples_us\": [",
           first ? "" : ",", call->bytes, call->in_place ? "true" : "false", iterations);
    for (int i = 0; i < options->trials; ++i) printf("%s%.9g", i ? ", " : "", samples[i]);
    qsort(samples, (size_t)options->trials, sizeof(double), compare);
    const double median = (samples[(options->trials - 1) / 2] + samples[options->trials / 2]) / 2;
    printf("], \"median_us\": %.9g, \"best_us\": %.9g, ", median, samples[0]);
    if (options->check) printf("\"wrong\": %ld, ", wrong);
    if (!options->check) printf("\"wrong\": null, ");
    printf("\"cpu_s_per_gb\": %.6g}", volume > 0 ? cpu / volume * 1e9 : 0);
  }
  free(samples);
  return wrong;
}

/* Whole elements, equally many for each rank where the vector is divided, at least one each. */
static size_t round_bytes(const Options* options, size_t bytes) {
  const Collective collective = options->collective;
  const size_t unit = options->element_bytes * (divides(collective) ? (size_t)world_size : 1);
  if (collective == BARRIER) return 0;
  return (bytes / unit > 0 ? bytes / unit : 1) * unit;
}

static void print_heading(const Options* options) {
  char version[MPI_MAX_LIBRARY_VERSION_STRING];
  int length = 0;
  MPI_Get_library_version(version, &length);
  for (char* c = version; *c; ++c) {
    if (*c == '\n')
      *c = '\0';
    else if ((unsigned char)*c < ' ' || *c == '"' || *c == '\\')
      *c = ' ';
    if (!*c) break;
  }
  printf(
      "{\"program\": \"mpi_perf\", \"version\": \"%s\", \"collective\": \"%s\", \"dtype\": \"%s\", \"op\": "
      "\"%s\", "
      "\"ranks\": %d, \"rows\": [",
      version, collective_names[options->collective], options->type_name, options->op_name, world_size);
}

static unsigned char* allocate(size_t bytes) {
  unsigned char* memory = aligned_alloc(PAGE, (bytes / PAGE + 1) * PAGE);
  if (!memory) refuse("no memory for", "the largest size");
  return memory;
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &world_size);
  const Options options = parse_options(argc, argv);
  const size_t largest = round_bytes(&options, options.max_bytes);
  Call call = {.options = &options};
  call.input = allocate(largest);
  call.output = allocate(largest);

  if (rank == 0) print_heading(&options);
  long wrong = 0;
  bool first = true;
  size_t last = SIZE_MAX;
  for (size_t bytes = options.min_bytes; bytes <= options.max_bytes; bytes *= options.factor) {
    call.bytes = round_bytes(&options, bytes);
    call.part = call.bytes / (size_t)world_size;
    if (call.bytes == last) continue;
    last = call.bytes;
    for (int in_place = 0; in_place < 2; ++in_place) {
      if (!(in_place ? options.in_place : options.out_of_place)) continue;
      call.in_place = in_place;
      wrong += measure(&call, first);
      first = false;
    }
  }
  if (rank == 0) printf("\n]}\n");
  free(call.input);
  free(call.output);
  MPI_Finalize();
  return wrong == 0 ? RIGHT : WRONG;
}
