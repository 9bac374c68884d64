// Layers in one launch whose blocks exchange states through global memory: see rnn_one_launch.cuh.
//
// All blocks must be co-resident: this is a cooperative launch.
#include "rnn_meeting.cuh"
#include "rnn_one_launch.cuh"

// The shared memory of the block; costs.py computes its size.
extern __shared__ __align__(16) unsigned char shared[];

// Through global memory and the L2 cache; see Passed.
template <class V> struct InMemory {
    Passed<V> passed;
    int64 stride;
    Meeting meeting;

    // meetings: 128 zero bytes per group.
    __device__ __forceinline__ InMemory(V* passed, unsigned* meetings, int64 sequences, int64 depth)
        : passed{passed, sequences, depth}, stride(depth), meeting{meetings + blockIdx.y * 32, gridDim.x, 0} {}

    __device__ __forceinline__ void begin() const {}
    __device__ __forceinline__ const V* operand(int64 first, int64 step) const { return passed.row(first, step); }
    __device__ __forceinline__ void put(int, int64 sequence, int64 step, int64 place, V value) const {
        passed.row(sequence, step)[place] = value;
    }
    __device__ __forceinline__ void meet() { meeting.meet(); }
};

// passed: memory for Passed, zeros. deep: values of a chunk of the product.
template <class Cell, class Product, class V = typename Product::T>
__global__ void __launch_bounds__(THREADS, 1)
persistent_forward(const Run<V>* __restrict__ about, const V* __restrict__ weight, typename Product::Value* passed,
                   unsigned* meetings, int64 units, int64 tall, int64 sequences, int64 deep, int64 from) {
    const Run<V> run = *about;
    const int size = (int)run.size;
    const Product product(shared, size, Cell::GATES * (int)units, (int)deep, (int)tall);
    const InMemory<typename Product::Value> passing(passed, meetings, sequences, product.depth);
    steps_forward<Cell>(run, weight, product, passing, (int)units, tall, sequences, from);
}

template <class Cell, class Product, class V = typename Product::T>
__global__ void __launch_bounds__(THREADS, 1)
persistent_backward(const Back<V>* __restrict__ about, const V* __restrict__ weight, typename Product::Value* passed,
                    unsigned* meetings, int64 units, int64 tall, int64 sequences, int64 deep, int64 from) {
    const Back<V> back = *about;
    const Product product(shared, Cell::GATES * (int)back.size, (int)units, (int)deep, (int)tall);
    const InMemory<typename Product::Value> passing(passed, meetings, sequences, product.depth);
    steps_backward<Cell>(back, weight, product, passing, (int)units, tall, sequences, from);
}
