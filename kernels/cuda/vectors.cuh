// Vectorised access to rows: several neighbouring values at a time.
#pragma once
#include "types.cuh"

// N neighbouring values of a row. Up to 16 bytes are one transaction, whose address must be aligned
// accordingly; the launch guarantees it (launch.py, at_once).
template <class T, int N>
struct alignas(N == 1 ? alignof(T) : sizeof(T) * N < 16 ? sizeof(T) * N : 16) Pack {
    T at[N];
};

// Stores in 16-byte transactions where possible. By itself the compiler stores values one by one if
// they are computed one by one.
template <class T, int N> __device__ __forceinline__ void store(T* place, const Pack<T, N>& values) {
#if defined(__CUDA_ARCH__)
    if constexpr (N > 1 && sizeof(values) % 4 == 0) {
        enum { WORDS = sizeof(values) / 4 };
        unsigned words[WORDS];
        memcpy(words, &values, sizeof(values));
        if constexpr (WORDS == 1)
            asm volatile("st.global.b32 [%0], %1;" ::"l"(place), "r"(words[0]) : "memory");
        if constexpr (WORDS == 2)
            asm volatile("st.global.v2.b32 [%0], {%1, %2};"
                         ::"l"(place), "r"(words[0]), "r"(words[1]) : "memory");
        if constexpr (WORDS >= 4)
#pragma unroll
            for (int i = 0; i < WORDS; i += 4)
                asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};"
                             ::"l"((unsigned*)place + i), "r"(words[i]), "r"(words[i + 1]),
                               "r"(words[i + 2]), "r"(words[i + 3]) : "memory");
        return;
    }
#endif
    *(Pack<T, N>*)place = values;
}

template <class To, class T, int N> __device__ __forceinline__ Pack<To, N> cast(const Pack<T, N>& values) {
    Pack<To, N> result;
#pragma unroll
    for (int n = 0; n < N; n++) result.at[n] = as<To, T>(values.at[n]);
    return result;
}

// Selects value by value: `?:` on whole packs would keep both in local memory.
template <class T, int N>
__device__ __forceinline__ Pack<T, N> either(bool first, const Pack<T, N>& a, const Pack<T, N>& b) {
    Pack<T, N> result;
#pragma unroll
    for (int n = 0; n < N; n++) result.at[n] = first ? a.at[n] : b.at[n];
    return result;
}

// Reads the N columns of a thread; `data` points to the first. BURST loads are in flight before the
// first is used: 32 to 64 bytes per thread, as many as registers allow.
template <class T, int N> struct Columns {
    typedef T Value;
    typedef Pack<T, N> Values;
    enum { BURST = sizeof(Values) >= 8 ? 4 : 8 };
    const T* data;
    int64 width;

    __device__ __forceinline__ Values at(int64 row) const {
        return *(const Values*)(data + row * width);
    }
};

// Where a thread's N columns of results go.
template <class T, int N> struct Results {
    typedef T Value;
    typedef Pack<T, N> Values;
    T* data;
    int64 width;

    __device__ __forceinline__ void put(int64 row, const Values& values) const {
        store(data + row * width, values);
    }
};

// Loads COUNT rows from `row` on that lie before `stop`.
template <class Rows, int COUNT>
__device__ __forceinline__ void
fetch(const Rows& rows, int64 row, int64 stop, typename Rows::Values (&got)[COUNT]) {
#pragma unroll
    for (int i = 0; i < COUNT; i++)
        if (row + i < stop) got[i] = rows.at(row + i);
}
