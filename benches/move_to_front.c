/* The simplest exact LRU of three levels: a set is an array in order of use, and a reference moves
 * its line to the front. 32 KiB of 8 ways, 256 KiB of 4, 12 MiB of 16 (12288 sets). It counts
 * misses, and nothing else. Arguments: file of little-endian u64 addresses, rounds. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static uint64_t misses[3];

#define LEVEL(NUMBER, SETS, WAYS)                                  \
    static uint64_t lines##NUMBER[SETS][WAYS];                     \
    static inline int reference##NUMBER(uint64_t line)             \
    {                                                              \
        uint64_t *set = lines##NUMBER[line % (SETS)];              \
        int way;                                                   \
        if (set[0] == line)                                        \
            return 1;                                              \
        for (way = 1; way < (WAYS); way++)                         \
            if (set[way] == line) {                                \
                for (; way > 0; way--)                             \
                    set[way] = set[way - 1];                       \
                set[0] = line;                                     \
                return 1;                                          \
            }                                                      \
        for (way = (WAYS)-1; way > 0; way--)                       \
            set[way] = set[way - 1];                               \
        set[0] = line;                                             \
        misses[NUMBER]++;                                          \
        return 0;                                                  \
    }

LEVEL(0, 64, 8)
LEVEL(1, 1024, 4)
LEVEL(2, 12288, 16)

int main(int argc, char **argv)
{
    FILE *file = argc == 3 ? fopen(argv[1], "rb") : NULL;
    struct timespec start, end;
    uint64_t *addresses;
    long count, i, rounds;
    if (!file || fseek(file, 0, SEEK_END) || (count = ftell(file) / 8) <= 0)
        return 2;
    rewind(file);
    addresses = malloc(8 * (size_t)count);
    if (!addresses || fread(addresses, 8, (size_t)count, file) != (size_t)count)
        return 2;
    memset(lines0, 255, sizeof lines0);
    memset(lines1, 255, sizeof lines1);
    memset(lines2, 255, sizeof lines2);
    clock_gettime(CLOCK_MONOTONIC, &start);
    for (rounds = atol(argv[2]); rounds > 0; rounds--)
        for (i = 0; i < count; i++) {
            uint64_t line = addresses[i] >> 6;
            if (!reference0(line) && !reference1(line))
                reference2(line);
        }
    clock_gettime(CLOCK_MONOTONIC, &end);
    printf("%.9f %lu %lu %lu\n",
           (double)(end.tv_sec - start.tv_sec) + 1e-9 * (double)(end.tv_nsec - start.tv_nsec),
           (unsigned long)misses[0], (unsigned long)misses[1], (unsigned long)misses[2]);
    return 0;
}
