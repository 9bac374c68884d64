// Warp-level products on tensor cores: operands of reduced precision, accumulators in float32.
#pragma once
#include "types.cuh"

// sums (16, 8) += left (16, 8 words) @ right (8 words, 8), by a warp. Lane g * 4 + t has of left
// the words (g, t), (g + 8, t), (g, t + 4), (g + 8, t + 4); of right (t, g), (t + 4, g); of the
// sums (g, 2 t), (g, 2 t + 1), (g + 8, 2 t), (g + 8, 2 t + 1). A GPU older than 8.0 has none.
#ifdef __CUDA_ARCH__
#if __CUDA_ARCH__ >= 800
#define LOD_MMA(KIND)                                                                                  \
    asm("mma.sync.aligned." KIND " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"    \
        : "+f"(s[0]), "+f"(s[1]), "+f"(s[2]), "+f"(s[3])                                               \
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]))
#else
#define LOD_MMA(KIND) __trap()
#endif
typedef float Sums[4];
typedef const unsigned Lefts[4], Rights[2];
__device__ __forceinline__ void mma_tf32(Sums& s, Lefts& a, Rights& b) {
    LOD_MMA("m16n8k8.row.col.f32.tf32.tf32.f32");
}
__device__ __forceinline__ void mma_f16(Sums& s, Lefts& a, Rights& b) {
    LOD_MMA("m16n8k16.row.col.f32.f16.f16.f32");
}
__device__ __forceinline__ void mma_bf16(Sums& s, Lefts& a, Rights& b) {
    LOD_MMA("m16n8k16.row.col.f32.bf16.bf16.f32");
}
#undef LOD_MMA
// Loads four matrices of 8 rows of 16 bytes, whose addresses lanes pass in turn. Lane g * 4 + t
// gets word t of row g of each; with `_turned`, 16-bit values 2 t and 2 t + 1 of column g.
__device__ __forceinline__ void load_matrices(unsigned (&r)[4], const void* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"((unsigned)__cvta_generic_to_shared(row)));
}
__device__ __forceinline__ void load_matrices_turned(unsigned (&r)[4], const void* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"((unsigned)__cvta_generic_to_shared(row)));
}
#endif

// Rounding of operands, to nearest. A word holds one value, or two consecutive ones.
struct TF32 {
    typedef float Value;
    static const int VALUES = 1;
    static __device__ __forceinline__ unsigned word(const float* v) {
        const unsigned bits = __float_as_uint(*v);
        // Keeps ten fraction bits by adding half a unit. A NaN could overflow into a number.
        return (bits & 0x7fffffffu) > 0x7f800000u ? bits : (bits + 0x1000u) & ~0x1fffu;
    }
    static __device__ __forceinline__ float value(float v) { return __uint_as_float(word(&v)); }
    template <class... A> static __device__ __forceinline__ void multiply_add(A&... a) { mma_tf32(a...); }
};
template <class Half> struct Halves {
    typedef Half Value;
    static const int VALUES = 2;
    static __device__ __forceinline__ unsigned word(const float* v) {
        return Half::from(v[0]).bits | (unsigned)Half::from(v[1]).bits << 16;
    }
    static __device__ __forceinline__ Half value(float v) { return Half::from(v); }
};
struct FP16 : Halves<float16> {
    template <class... A> static __device__ __forceinline__ void multiply_add(A&... a) { mma_f16(a...); }
};
struct BF16 : Halves<bfloat16> {
#if __CUDA_ARCH__ >= 800
    // One instruction; the compiler pairs two of float16 by itself.
    static __device__ __forceinline__ unsigned word(const float* v) {
        unsigned pair;
        asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(v[1]), "f"(v[0]));
        return pair;
    }
#endif
    template <class... A> static __device__ __forceinline__ void multiply_add(A&... a) { mma_bf16(a...); }
};
