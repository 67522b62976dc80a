/* The command line of mpi_perf. */
#pragma once

#include <limits.h>
#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BAD_USAGE = 2 };

typedef enum { ALL_REDUCE, BROADCAST, ALL_GATHER, REDUCE_SCATTER, BARRIER, COLLECTIVES } Collective;
static const char* const collective_names[COLLECTIVES] = {"all_reduce", "broadcast", "all_gather",
                                                          "reduce_scatter", "barrier"};

typedef struct {
  Collective collective;
  const char* type_name;
  const char* op_name;
  size_t min_bytes, max_bytes, factor;
  long iterations, warmup;
  double time_per_size; /* seconds for all trials; 0: iterations */
  int trials, root;
  bool check, in_place, out_of_place;
  MPI_Datatype type;
  MPI_Op op;
  size_t element_bytes;
} Options;

static int rank, world_size;

static void refuse(const char* what, const char* value) {
  if (rank == 0) fprintf(stderr, "mpi_perf: %s '%s'\n", what, value);
  MPI_Finalize();
  exit(BAD_USAGE);
}

static bool is(const char* a, const char* b) { return strcmp(a, b) == 0; }

static size_t parse_bytes(const char* name, const char* text) {
  char* rest = NULL;
  const unsigned long long number = strtoull(text, &rest, 10);
  const char* units = "KMG";
  const char* unit = *rest ? strchr(units, *rest) : NULL;
  if (number == 0 || (*rest && (!unit || rest[1]))) refuse(name, text);
  return (size_t)number << (unit ? 10 * (unit - units + 1) : 0);
}

/* A number of at least `least`. */
static long number(const char* name, const char* value, long least) {
  char* rest = NULL;
  const long found = strtol(value, &rest, 10);
  if (*rest || rest == value || found < least) refuse(name, value);
  return found;
}

static void parse_option(Options* o, const char* name, const char* value) {
  if (is(name, "-b")) o->min_bytes = parse_bytes(name, value);
  if (is(name, "-e")) o->max_bytes = parse_bytes(name, value);
  if (is(name, "-f")) o->factor = (size_t)number(name, value, 2);
  if (is(name, "-d")) o->type_name = value;
  if (is(name, "-o")) o->op_name = value;
  if (is(name, "-r")) o->root = (int)number(name, value, 0);
  if (is(name, "-n")) o->iterations = number(name, value, 1);
  if (is(name, "-w")) o->warmup = number(name, value, 0);
  if (is(name, "-c")) o->check = number(name, value, 0) != 0;
  if (is(name, "--trials")) o->trials = (int)number(name, value, 1);
  if (is(name, "--time-per-size")) o->time_per_size = 1e-3 * atof(value);
}

static bool has_value(const char* name) {
  const bool is_short = name[0] == '-' && name[1] && strchr("befdornwc", name[1]) && !name[2];
  return is_short || is(name, "--trials") || is(name, "--time-per-size");
}

static void find_type_and_op(Options* options) {
  const struct {
    const char* name;
    size_t bytes;
    MPI_Datatype type;
  } types[] = {{"float32", 4, MPI_FLOAT},  {"float64", 8, MPI_DOUBLE},  {"int8", 1, MPI_INT8_T},
               {"uint8", 1, MPI_UINT8_T},  {"int16", 2, MPI_INT16_T},   {"uint16", 2, MPI_UINT16_T},
               {"int32", 4, MPI_INT32_T},  {"uint32", 4, MPI_UINT32_T}, {"int64", 8, MPI_INT64_T},
               {"uint64", 8, MPI_UINT64_T}};
  const struct {
    const char* name;
    MPI_Op op;
    bool bitwise;
  } ops[] = {{"sum", MPI_SUM, false},    {"product", MPI_PROD, false}, {"min", MPI_MIN, false},
             {"max", MPI_MAX, false},    {"bit_and", MPI_BAND, true},  {"bit_or", MPI_BOR, true},
             {"bit_xor", MPI_BXOR, true}};
  size_t t = 0, o = 0;
  while (t < sizeof types / sizeof *types && !is(types[t].name, options->type_name)) ++t;
  if (t == sizeof types / sizeof *types) refuse("MPI has no such type:", options->type_name);
  while (o < sizeof ops / sizeof *ops && !is(ops[o].name, options->op_name)) ++o;
  if (o == sizeof ops / sizeof *ops) refuse("MPI has no such operation:", options->op_name);
  if (ops[o].bitwise && options->type_name[0] == 'f') refuse("not for floating types:", options->op_name);
  options->type = types[t].type;
  options->element_bytes = types[t].bytes;
  options->op = ops[o].op;
}

static Options parse_options(int argc, char** argv) {
  Options options = {.type_name = "float32", .op_name = "sum", .min_bytes = 8, .max_bytes = (size_t)64 << 20};
  options.factor = 2;
  options.iterations = 20;
  options.warmup = options.trials = 5;
  options.check = true;
  if (argc < 2) refuse("missing", "COLLECTIVE");
  while (options.collective < COLLECTIVES && !is(argv[1], collective_names[options.collective]))
    ++options.collective;
  if (options.collective == COLLECTIVES) refuse("unknown collective", argv[1]);
  for (int i = 2; i < argc; ++i) {
    const bool in_place = is(argv[i], "--in-place"), out_of_place = is(argv[i], "--out-of-place");
    options.in_place |= in_place;
    options.out_of_place |= out_of_place;
    if (in_place || out_of_place) continue;
    if (!has_value(argv[i])) refuse("unknown option", argv[i]);
    if (i + 1 == argc) refuse("no value for", argv[i]);
    parse_option(&options, argv[i], argv[i + 1]);
    ++i;
  }
  const bool both = options.in_place == options.out_of_place;
  options.in_place = options.collective != BARRIER && (both || options.in_place);
  options.out_of_place = options.collective != BROADCAST && (both || options.out_of_place);
  if (!options.in_place && !options.out_of_place) refuse("not possible in that place:", argv[1]);
  find_type_and_op(&options);
  if (options.root >= world_size) refuse("-r", "no such rank");
  if (options.min_bytes > options.max_bytes) refuse("-b", "above -e");
  if (options.max_bytes / options.element_bytes > INT_MAX) refuse("-e", "more elements than MPI counts");
  return options;
}
