/* The job pi in C, with all that a job needs and nothing else: what it computes is
 * in inside, the rest is the same in every job.
 *
 * As a module, with the WASI SDK:
 *   $WASI_SDK/bin/clang --target=wasm32-wasip1 -O2 -o pi.wasm pi.c
 * As a program that a host allows in [exec.programs]:
 *   cc -O2 -o pi pi.c
 */
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* number reads a variable of the chunk. Only SKEIN_SEED may be missing. */
static uint64_t number(const char *name, int needed) {
	const char *text = getenv(name);
	char *end;
	if (text == NULL && !needed) return 0;
	uint64_t n = text == NULL ? 0 : strtoull(text, &end, 10);
	if (text == NULL || *text == '\0' || *end != '\0') {
		fprintf(stderr, "%s is not a number\n", name);
		exit(1); /* the attempt fails, and this is its reason */
	}
	return n;
}

static uint64_t mix(uint64_t z) {
	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

#define GOLDEN UINT64_C(0x9e3779b97f4a7c15)

/* inside counts the points of the iterations from offset on that fall inside the
 * circle. The random bits depend on the seed and the iteration's index only: so
 * every host gets the same, and no two chunks the same numbers. */
static uint64_t inside(uint64_t seed, uint64_t offset, uint64_t iterations) {
	uint64_t key = mix(mix(seed + GOLDEN) ^ mix(1)), hits = 0;
	for (uint64_t i = offset; i < offset + iterations; i++) {
		uint64_t z = mix(key + i * GOLDEN);
		uint64_t x = z >> 33 | 1, y = (z & 0x7fffffff) | 1;
		hits += x * x + y * y < UINT64_C(1) << 62;
	}
	return hits;
}

int main(void) {
	uint64_t n = number("SKEIN_ITERATIONS", 1), offset = number("SKEIN_SEED_OFFSET", 1), seed = number("SKEIN_SEED", 0);
	if (n == 0) {
		fprintf(stderr, "SKEIN_ITERATIONS is 0\n");
		return 1;
	}
	double hits = (double)inside(seed, offset, n), all = (double)n;
	/* 17 digits are every bit of a number. */
	printf("{\"iterations\": %" PRIu64 ", \"metrics\": {\"pi\": {\"n\": %" PRIu64 ", \"mean\": %.17g, \"m2\": %.17g, \"min\": %d, \"max\": %d}}}\n",
		n, n, 4 * hits / all, 16 * hits / all * (all - hits), hits == all ? 4 : 0, hits == 0 ? 0 : 4);
	return 0;
}
