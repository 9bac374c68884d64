// Element types: storage type, compute type, and conversions between them. Half precision is
// converted by bit operations, so that no CUDA header is needed to compile; on a GPU float16 takes
// one instruction, and bfloat16 from compute capability 8.0 on.
#pragma once

typedef long long int64;
typedef unsigned long long uint64;

__device__ __forceinline__ float bits_to_float(unsigned bits) {
    return __uint_as_float(bits);
}

struct float16 {
    unsigned short bits;

    __device__ __forceinline__ operator float() const {
#if defined(__CUDA_ARCH__)
        float value;
        asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
        return value;
#else
        const unsigned sign = (unsigned)(bits & 0x8000u) << 16;
        const unsigned exponent = (bits >> 10) & 31u;
        const unsigned fraction = bits & 1023u;
        if (exponent == 31) return bits_to_float(sign | 0x7f800000u | (fraction << 13));
        if (exponent) return bits_to_float(sign | ((exponent + 112) << 23) | (fraction << 13));
        const float small = (float)fraction * (1.0f / 16777216.0f);
        return sign ? -small : small;
#endif
    }

    // Rounds to nearest, ties to even.
    __device__ __forceinline__ static float16 from(float value) {
        float16 result;
#if defined(__CUDA_ARCH__)
        asm("cvt.rn.f16.f32 %0, %1;" : "=h"(result.bits) : "f"(value));
#else
        const unsigned word = __float_as_uint(value);
        const unsigned sign = (word >> 16) & 0x8000u;
        const unsigned magnitude = word & 0x7fffffffu;
        unsigned half;
        if (magnitude > 0x7f800000u) {
            half = 0x7e00u;
        } else if (magnitude >= 0x477ff000u) {
            half = 0x7c00u;
        } else if (magnitude < 0x38800000u) {
            // Subnormal: adding 0.5 leaves the rounded fraction in the lowest bits.
            half = __float_as_uint(bits_to_float(magnitude) + 0.5f) - 0x3f000000u;
        } else {
            half = (magnitude + 0xfffu + ((magnitude >> 13) & 1u) - 0x38000000u) >> 13;
        }
        result.bits = (unsigned short)(sign | half);
#endif
        return result;
    }
    __device__ __forceinline__ float16& operator=(float value) { return *this = from(value); }
};

struct bfloat16 {
    unsigned short bits;

    __device__ __forceinline__ operator float() const {
        return bits_to_float((unsigned)bits << 16);
    }

    __device__ __forceinline__ static bfloat16 from(float value) {
        bfloat16 result;
#if __CUDA_ARCH__ >= 800
        unsigned pair;
        asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(0.0f), "f"(value));
        result.bits = (unsigned short)pair;
#else
        const unsigned word = __float_as_uint(value);
        if ((word & 0x7fffffffu) > 0x7f800000u) {
            result.bits = (unsigned short)((word >> 16) | 64u);
        } else {
            result.bits = (unsigned short)((word + 0x7fffu + ((word >> 16) & 1u)) >> 16);
        }
#endif
        return result;
    }
    __device__ __forceinline__ bfloat16& operator=(float value) { return *this = from(value); }
};

// A word from its bytes, which a launch passes as two numbers.
template <class W> __device__ __forceinline__ W word_of(uint64 low, uint64 high) {
    const uint64 bytes[2] = {low, high};
    W word;
    memcpy(&word, bytes, sizeof(W));
    return word;
}

// The word at an offset in memory that is filled with these 16 bytes repeatedly.
template <class W> __device__ __forceinline__ W word_at(uint64 low, uint64 high, int64 place) {
    if (sizeof(W) == 16) return word_of<W>(low, high);
    const uint64 byte = (uint64)place * sizeof(W), eight = byte & 8 ? high : low;
    return word_of<W>(eight >> 8 * (byte & 7), 0);
}

// Accumulator type: values are summed, compared and divided in it.
template <class T> struct Wide { typedef int64 type; };
template <> struct Wide<float> { typedef float type; };
template <> struct Wide<double> { typedef double type; };
template <> struct Wide<float16> { typedef float type; };
template <> struct Wide<bfloat16> { typedef float type; };
template <> struct Wide<uint64> { typedef uint64 type; };
template <> struct Wide<unsigned int> { typedef uint64 type; };
template <> struct Wide<unsigned short> { typedef uint64 type; };
template <> struct Wide<unsigned char> { typedef uint64 type; };

template <class To, class From> __device__ __forceinline__ To as(From value) {
    return (To)value;
}
template <> __device__ __forceinline__ float16 as<float16, float>(float value) {
    return float16::from(value);
}
template <> __device__ __forceinline__ float16 as<float16, double>(double value) {
    return float16::from((float)value);
}
template <> __device__ __forceinline__ bfloat16 as<bfloat16, float>(float value) {
    return bfloat16::from(value);
}
template <> __device__ __forceinline__ bfloat16 as<bfloat16, double>(double value) {
    return bfloat16::from((float)value);
}

// An integer is converted to half precision through float.
template <> __device__ __forceinline__ float16 as<float16, int64>(int64 value) {
    return float16::from((float)value);
}
template <> __device__ __forceinline__ bfloat16 as<bfloat16, int64>(int64 value) {
    return bfloat16::from((float)value);
}

// Sums, differences and products; integers wrap around on overflow.
template <class A> __device__ __forceinline__ A plus(A a, A b) { return a + b; }
template <class A> __device__ __forceinline__ A minus(A a, A b) { return a - b; }
template <class A> __device__ __forceinline__ A times(A a, A b) { return a * b; }
template <> __device__ __forceinline__ int64 plus<int64>(int64 a, int64 b) {
    return (int64)((uint64)a + (uint64)b);
}
template <> __device__ __forceinline__ int64 minus<int64>(int64 a, int64 b) {
    return (int64)((uint64)a - (uint64)b);
}
template <> __device__ __forceinline__ int64 times<int64>(int64 a, int64 b) {
    return (int64)((uint64)a * (uint64)b);
}

// Binary search for the segment of S that contains a row: the last one that starts at or before it.
template <class Offsets>
__device__ __forceinline__ int64 segment_of(const Offsets& offsets, int64 segments, int64 row) {
    int64 low = 0, high = segments;
    while (high - low > 1) {
        const int64 middle = low + ((high - low) >> 1);
        if (offsets[middle] <= row) low = middle; else high = middle;
    }
    return low;
}

// The same, starting from a segment that begins at or before the row. An exponential search: it
// takes few steps over many empty segments.
template <class Offsets>
__device__ __forceinline__ int64 segment_after(Offsets offsets, int64 segments, int64 segment, int64 row) {
    int64 step = 1;
    while (segment + step < segments && offsets[segment + step] <= row) {
        segment += step;
        step += step;
    }
    int64 high = segment + step < segments ? segment + step : segments;
    while (high - segment > 1) {
        const int64 middle = segment + ((high - segment) >> 1);
        if (offsets[middle] <= row) segment = middle; else high = middle;
    }
    return segment;
}
