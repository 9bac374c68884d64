// Shared by softmax.cu and softmax_long.cu: the contribution of a row to its segment, its result,
// and rows held in registers meanwhile.
#pragma once
#include "narrow.cuh"

enum { SOFTMAX, LOG_SOFTMAX, SOFTMAX_GRAD, LOG_SOFTMAX_GRAD };
// Rows that a thread holds, N values each: as many as registers allow, where gradients read two
// values each. More than LONG rows, too many for a block, are a long segment.
template <int OP, class A, int N> struct Room {
    enum { KEPT = OP >= SOFTMAX_GRAD ? 7 : sizeof(A) == 8 ? 10 : 13, LONG = 8 * N * KEPT };
};

__device__ __forceinline__ float power(float value) { return expf(value); }
__device__ __forceinline__ double power(double value) { return exp(value); }
__device__ __forceinline__ float logarithm(float value) { return logf(value); }
__device__ __forceinline__ double logarithm(double value) { return log(value); }
// Inverse of a sum of at least 1, or NaN: without the slow path of division for denormal or huge
// numbers. One Newton step refines the estimate.
__device__ __forceinline__ float inverse(float sum) {
    const float guess = __fdividef(1.0f, sum);
    return guess * (2.0f - sum * guess);
}
__device__ __forceinline__ double inverse(double sum) { return 1.0 / sum; }
template <class A> __device__ __forceinline__ A infinity();
template <> __device__ __forceinline__ float infinity<float>() { return __uint_as_float(0x7f800000u); }
template <> __device__ __forceinline__ double infinity<double>() { return __longlong_as_double(0x7ff0000000000000ll); }

// The running maximum, and the sum of exp(value - maximum). Gradients have only a sum, with 0 as
// the maximum. After the first NaN or positive infinity the sum is NaN.
template <class A> struct Powers {
    A top, sum;

    __device__ __forceinline__ void join(Powers below) {
        if (below.top > top) {
            sum = sum * power(top - below.top) + below.sum;
            top = below.top;
        } else if (below.top == top) {
            sum += below.sum;
        } else {
            sum += below.sum * power(below.top - top);
        }
    }
};

template <int OP, class A> struct Rule {
    enum { IS_GRADIENT = OP >= SOFTMAX_GRAD };
    __device__ __forceinline__ static A least() { return IS_GRADIENT ? (A)0 : -infinity<A>(); }
    // The value to subtract: infinity minus itself would be NaN if all values are -inf.
    __device__ __forceinline__ static A base(A top) { return top == -infinity<A>() ? (A)0 : top; }
    // The contribution of a row to the sum: `x` is the data, or the result for gradients; `flow`
    // the upstream gradient.
    __device__ __forceinline__ static A term(A x, A flow, A base) {
        if (OP == SOFTMAX_GRAD) return flow * x;
        return OP == LOG_SOFTMAX_GRAD ? flow : power(x - base);
    }
    // Computed once per sum: its inverse, or its logarithm.
    __device__ __forceinline__ static Powers<A> closed(Powers<A> part) {
        if (OP == SOFTMAX) return {part.top, inverse(part.sum)};
        return {part.top, OP == LOG_SOFTMAX ? logarithm(part.sum) : part.sum};
    }
    __device__ __forceinline__ static A result(A x, A flow, Powers<A> part) {
        if (OP == SOFTMAX) return power(x - part.top) * part.sum;
        if (OP == LOG_SOFTMAX) return x - part.top - part.sum;
        return OP == SOFTMAX_GRAD ? x * (flow - part.sum) : flow - power(x) * part.sum;
    }
};

// Rows in registers: every `step`th of the remaining `left` rows from a row on.
template <int OP, class A, int N> struct Kept {
    typedef Rule<OP, A> Of;
    enum { KEPT = Room<OP, A, N>::KEPT };
    Pack<A, N> x[KEPT], flow[KEPT];
    int left, step;

    template <class Rows>
    __device__ __forceinline__ void
    bring(const Rows& of_x, const Rows& of_flow, int64 row, int count, int every) {
        step = every;
        left = count;
#pragma unroll
        for (int i = 0; i < KEPT; i++) {
            if (i * step >= left) continue;
            x[i] = cast<A>(of_x.at(row + i * step));
            flow[i] = Of::IS_GRADIENT ? cast<A>(of_flow.at(row + i * step)) : x[i];
        }
    }
    __device__ __forceinline__ A top(int n, A top) const {
#pragma unroll
        for (int i = 0; i < KEPT; i++)
            if (!Of::IS_GRADIENT && i * step < left && x[i].at[n] > top) top = x[i].at[n];
        return top;
    }
    __device__ __forceinline__ A sum(int n, A sum, A base) const {
#pragma unroll
        for (int i = 0; i < KEPT; i++)
            if (i * step < left) sum += Of::term(x[i].at[n], flow[i].at[n], base);
        return sum;
    }
    template <class Out>
    __device__ __forceinline__ void
    write(const Out& out, int64 row, const Pack<Powers<A>, N>& closed) const {
#pragma unroll
        for (int i = 0; i < KEPT; i++) {
            if (i * step >= left) continue;
            Pack<A, N> values;
#pragma unroll
            for (int n = 0; n < N; n++)
                values.at[n] = Of::result(x[i].at[n], flow[i].at[n], closed.at[n]);
            out.put(row + i * step, cast<typename Out::Value>(values));
        }
    }
};

template <int OP, class A, int N> __device__ __forceinline__ Pack<Powers<A>, N> nothing() {
    Pack<Powers<A>, N> parts;
#pragma unroll
    for (int n = 0; n < N; n++) parts.at[n] = {Rule<OP, A>::least(), (A)0};
    return parts;
}
// What all rows of a segment need, from the reduction of these and other rows.
template <int OP, class A, int N> __device__ __forceinline__ void close(Pack<Powers<A>, N>& parts) {
#pragma unroll
    for (int n = 0; n < N; n++) parts.at[n] = Rule<OP, A>::closed(parts.at[n]);
}

// The reduction of `count` rows. The last ones stay in `kept`, from `last` on.
template <int OP, class A, int N, class Rows>
__device__ __forceinline__ Pack<Powers<A>, N>
reduced(const Rows& x, const Rows& flow, int64 row, int count, Kept<OP, A, N>& kept, int& last) {
    typedef Rule<OP, A> Of;
    enum { KEPT = Room<OP, A, N>::KEPT };
    Pack<Powers<A>, N> parts = nothing<OP, A, N>();
#pragma unroll 1
    for (int at = 0; at < count; at += KEPT) {
        kept.bring(x, flow, row + at, count - at, 1);
#pragma unroll
        for (int n = 0; n < N; n++) {
            const Powers<A> above = parts.at[n];
            const A top = kept.top(n, above.top), base = Of::base(top);
            const A sum = Of::IS_GRADIENT ? above.sum : above.sum * power(above.top - base);
            parts.at[n] = {top, kept.sum(n, sum, base)};
        }
        last = at;
    }
    return parts;
}
