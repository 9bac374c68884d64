// Rows in memory, several neighbouring values at a time.
#pragma once
#include "types.cuh"

// N neighbouring values of a row. Up to 16 bytes are one request, whose address must be a multiple
// of as many: who launches a kernel sees to that (launch.py, at_once).
template <class T, int N>
struct alignas(N == 1 ? alignof(T) : sizeof(T) * N < 16 ? sizeof(T) * N : 16) Pack {
    T at[N];
};

template <class T, int N> __device__ __forceinline__ void store(T* place, const Pack<T, N>& values) {
    *(Pack<T, N>*)place = values;
}

template <class To, class T, int N> __device__ __forceinline__ Pack<To, N> cast(const Pack<T, N>& values) {
    Pack<To, N> result;
#pragma unroll
    for (int n = 0; n < N; n++) result.at[n] = as<To, T>(values.at[n]);
    return result;
}

// The N columns of a thread; `data` begins at the first of them. BURST rows are asked for before the
// first of them is there: 32 to 64 bytes a thread, of what registers have room for.
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

// Asks for COUNT rows from `row` on, of those before `stop`.
template <class Rows, int COUNT>
__device__ __forceinline__ void
fetch(const Rows& rows, int64 row, int64 stop, typename Rows::Values (&got)[COUNT]) {
#pragma unroll
    for (int i = 0; i < COUNT; i++)
        if (row + i < stop) got[i] = rows.at(row + i);
}
