/* What buffers hold before and after: the numbers of bench/perf/patterns.cpp, for the types that MPI has. */
#pragma once

#include "options.h"

enum { PERIOD = 8191 };

static unsigned value_of(const char* op, unsigned from, unsigned index) {
  const unsigned ranks = (unsigned)world_size, spread = (ranks + 3) / 4 > 3 ? (ranks + 3) / 4 : 3;
  if (is(op, "sum")) return (index + from) % spread == 0 ? 1 + index % 2 : 0;
  if (is(op, "product")) return index % ranks == from ? 2 + index % 2 : 1;
  if (is(op, "min") || is(op, "max")) return (index * 7 + from * 3) % 8;
  return (index * 31 + from * 17) % 128;
}

static unsigned combine(const char* op, unsigned a, unsigned b) {
  if (is(op, "sum")) return a + b;
  if (is(op, "product")) return a * b;
  if (is(op, "min")) return a < b ? a : b;
  if (is(op, "max")) return a > b ? a : b;
  if (is(op, "bit_and")) return a & b;
  return is(op, "bit_or") ? a | b : a ^ b;
}

static void encode(const Options* options, unsigned value, unsigned char* where) {
  const float f = (float)value;
  const double d = value;
  const uint64_t i = value; /* little endian: its first bytes are the shorter integers */
  const void* source = is(options->type_name, "float32")   ? (const void*)&f
                       : is(options->type_name, "float64") ? (const void*)&d
                                                           : (const void*)&i;
  memcpy(where, source, options->element_bytes);
}

typedef enum { CONTRIBUTION, REDUCTION, ARBITRARY } Kind;

/* One period of a pattern; the caller frees it. `from`: whose. */
static unsigned char* make_period(const Options* options, Kind kind, int from) {
  const char* op = options->op_name;
  unsigned char* period = malloc(PERIOD * options->element_bytes);
  uint32_t state = (uint32_t)from + 1;
  for (size_t i = 0; kind == ARBITRARY && i < PERIOD * options->element_bytes; ++i) {
    state = state * 1664525u + 1013904223u;
    period[i] = (unsigned char)(state >> 24);
  }
  for (unsigned i = 0; kind != ARBITRARY && i < PERIOD; ++i) {
    unsigned value = value_of(op, kind == REDUCTION ? 0 : (unsigned)from, i);
    for (unsigned r = 1; kind == REDUCTION && r < (unsigned)world_size; ++r)
      value = combine(op, value, value_of(op, r, i));
    encode(options, value, period + i * options->element_bytes);
  }
  return period;
}

static void fill(const Options* options, unsigned char* target, size_t bytes, Kind kind, int from) {
  unsigned char* period = make_period(options, kind, from);
  const size_t period_bytes = PERIOD * options->element_bytes;
  for (size_t done = 0; done < bytes; done += period_bytes) {
    memcpy(target + done, period, bytes - done < period_bytes ? bytes - done : period_bytes);
  }
  free(period);
}

/* Elements of `found` that are not those of the pattern from number `first` on. */
static long count_wrong(const Options* options, const unsigned char* found, size_t bytes, Kind kind, int from,
                        size_t first) {
  unsigned char* period = make_period(options, kind, from);
  long wrong = 0;
  for (size_t i = 0; i < bytes / options->element_bytes; ++i) {
    const unsigned char* want = period + (first + i) % PERIOD * options->element_bytes;
    if (memcmp(found + i * options->element_bytes, want, options->element_bytes) != 0) ++wrong;
  }
  free(period);
  return wrong;
}
