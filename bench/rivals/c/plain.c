/* The bound of the group `election`: a plain loop over the columns that a decision must read, and no decision.
 * Protocol and files: ../README.md. A result is the number of partitions and a checksum, two little-endian int64. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BROKERS = 100, SLOTS = 3, FIELDS = 3 + 2 * SLOTS };

static int16_t *leader, *isr, *replicas;            /* as kcore has them: a broker is a small number */
static int32_t *leader_epoch, *partition_epoch;
static int32_t *rows_of[BROKERS + 1];               /* partitions with a replica on that broker */
static int64_t counts[BROKERS + 1], partitions;

static void *room(size_t bytes) {
  void *found = malloc(bytes ? bytes : 1);
  if (!found) { fprintf(stderr, "no memory for %zu bytes\n", bytes); exit(1); }
  return found;
}

static int load(const char *directory, const char *shape) {
  int64_t repeats = *shape == 'x' ? atoll(shape + 1) : 1;
  char path[4096];
  snprintf(path, sizeof path, "%s/cluster.%s.i32", directory, repeats > 1 ? "uniform" : shape);
  FILE *file = fopen(path, "rb");
  if (!file) return 0;
  fseek(file, 0, SEEK_END);
  int64_t once = ftell(file) / (int64_t)(FIELDS * sizeof(int32_t));
  rewind(file);
  int32_t *read = room((size_t)once * FIELDS * sizeof *read);
  if (fread(read, FIELDS * sizeof *read, (size_t)once, file) != (size_t)once) return 0;
  fclose(file);
  partitions = once * repeats;
  leader = room((size_t)partitions * sizeof *leader);
  leader_epoch = room((size_t)partitions * sizeof *leader_epoch);
  partition_epoch = room((size_t)partitions * sizeof *partition_epoch);
  isr = room((size_t)partitions * SLOTS * sizeof *isr);
  replicas = room((size_t)partitions * SLOTS * sizeof *replicas);
  memset(counts, 0, sizeof counts);
  for (int64_t p = 0; p < partitions; p++) {
    const int32_t *row = read + p % once * FIELDS;
    leader[p] = (int16_t)row[0], leader_epoch[p] = row[1], partition_epoch[p] = row[2];
    for (int s = 0; s < SLOTS; s++) {
      replicas[p * SLOTS + s] = (int16_t)row[3 + s], isr[p * SLOTS + s] = (int16_t)row[3 + SLOTS + s];
      if (row[3 + s] > 0) counts[row[3 + s]]++;
    }
  }
  for (int b = 1; b <= BROKERS; b++) rows_of[b] = room((size_t)counts[b] * sizeof **rows_of), counts[b] = 0;
  for (int64_t p = 0; p < partitions; p++)
    for (int s = 0; s < SLOTS; s++)
      if (replicas[p * SLOTS + s] > 0) rows_of[replicas[p * SLOTS + s]][counts[replicas[p * SLOTS + s]]++] = (int32_t)p;
  free(read);
  return 1;
}

/* Partitions that lose this broker from their ISR: everything that a decision about them depends on is read. */
static int64_t lost(int broker, int64_t *sum) {
  int64_t affected = 0;
  for (int64_t at = 0; at < counts[broker]; at++) {
    int64_t p = rows_of[broker][at];
    const int16_t *members = isr + p * SLOTS, *all = replicas + p * SLOTS;
    int is_member = 0;
    for (int s = 0; s < SLOTS; s++) is_member |= members[s] == broker, *sum += members[s] + all[s];
    *sum += leader[p] + leader_epoch[p] + partition_epoch[p];
    affected += is_member;
  }
  return affected;
}

/* Partitions whose leader is gone. */
static int64_t scanned(int gone, int64_t *sum) {
  int64_t found = 0;
  for (int64_t p = 0; p < partitions; p++) found += leader[p] == gone;
  *sum += found;
  return found;
}

static int64_t nanoseconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000000000LL + now.tv_nsec;
}

int main(int argc, char **argv) {
  char line[8192], command[16], name[256], rest[4096], loaded[256] = "";
  while (fgets(line, sizeof line, stdin)) {
    if (sscanf(line, "%15s %255s %4095s", command, name, rest) != 3) return 1;
    char *shape = strchr(name, ':'), kind = name[0];
    if (!shape || (strncmp(name, "offline:", 8) && strncmp(name, "fence:", 6) && strncmp(name, "scan:", 5))) {
      printf("{\"skip\": \"not supported\"}\n"), fflush(stdout);
      continue;
    }
    if (strcmp(loaded, name) && !load(argv[argc - 1], shape + 1)) {
      printf("{\"error\": \"no such cluster\"}\n"), fflush(stdout);
      continue;
    }
    strcpy(loaded, name);
    volatile int64_t kept;
    if (!strcmp(command, "check")) {
      int64_t result[2] = {0, 0};
      result[0] = kind == 's' ? scanned(1, result + 1) : lost(1, result + 1);
      FILE *file = fopen(rest, "wb");
      if (!file || fwrite(result, sizeof result, 1, file) != 1 || fclose(file)) return 1;
      printf("{}\n"), fflush(stdout);
      continue;
    }
    int64_t left = (int64_t)(atof(rest) * 1e9), round = 0;
    printf("{\"ns\": [");
    do {
      int64_t sum = 0, begin = nanoseconds();
      int64_t found = kind == 's' ? scanned(1, &sum) : lost(1 + (int)(round % BROKERS), &sum);
      int64_t took = nanoseconds() - begin, handled = kind == 's' ? partitions : found ? found : 1;
      kept = sum;
      printf("%s%.4f", round++ ? ", " : "", (double)took / (double)handled);
      left -= took > 0 ? took : 1;
    } while (left > 0);
    (void)kept;
    printf("]}\n"), fflush(stdout);
  }
  return 0;
}
