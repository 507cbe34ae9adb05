/* The entry point of a fuzzer: libFuzzer calls it with -Dfuzz=true, fuzz_main.c otherwise. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Returns 0. Aborts on anything wrong; bytes that are merely invalid are not. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
