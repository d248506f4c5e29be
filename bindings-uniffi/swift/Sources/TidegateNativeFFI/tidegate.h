// What happens to every call, as numbers: bindings-uniffi/src/numeric.rs. By hand, because nothing of it ever changes
// alone: the words are those of core/src/wire.rs.
#pragma once
#include <stdint.h>

// The word of the first step, or UINT64_MAX for a request that there is none of; the call's id is written to `call`.
uint64_t tidegate_begin(uint64_t engine, uint64_t route, uint64_t flags, uint64_t remaining, uint64_t parent,
                        uint64_t target, uint64_t now, uint64_t *call);

// The word of the next step, or UINT64_MAX for an event that there is none of.
uint64_t tidegate_on(uint64_t engine, uint64_t call, uint64_t event, uint64_t now);

// Reads and writes a number that threads share, without a lock.
static inline uint32_t tidegate_load(const uint32_t *from) { return __atomic_load_n(from, __ATOMIC_ACQUIRE); }
static inline void tidegate_store(uint32_t *to, uint32_t value) { __atomic_store_n(to, value, __ATOMIC_RELEASE); }
