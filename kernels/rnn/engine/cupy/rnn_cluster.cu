// Layers in one launch with states in shared memory, of one block or of a cluster: see
// rnn_one_launch.cuh. Blocks of a cluster are always co-resident, regardless of the number of
// clusters.
#include "rnn_cluster.cuh"
#include "rnn_one_launch.cuh"

// The shared memory of the block; costs.py computes its size.
extern __shared__ __align__(16) unsigned char shared[];

// In the shared memory of each of the SIZE blocks of a cluster; see Pair.
template <class V, int SIZE> struct InCluster {
    V* tiles;
    int64 stride, tile;

    // A block must not be written to before it starts, or while it multiplies the operand of a
    // slice.
    __device__ __forceinline__ void begin() const {
        if (SIZE > 1) cluster_meet();
    }
    __device__ __forceinline__ V* row(int i, int64 step) const { return tiles + (step & 1) * tile + i * stride; }
    __device__ __forceinline__ const V* operand(int64, int64 step) const { return row(0, step); }
    __device__ __forceinline__ void put(int i, int64, int64 step, int64 place, V value) const {
        V* const mine = row(i, step) + place;
        if (SIZE == 1) *mine = value;
        else
#pragma unroll
            for (unsigned rank = 0; rank < SIZE; rank++) *in_block(mine, rank) = value;
    }
    __device__ __forceinline__ void meet() const {
        if (SIZE == 1) __syncthreads(); else cluster_meet();
    }
};

// The left operands of the product are a Pair. The grid is (SIZE, groups).
template <int SIZE, class Cell, class Product, class V = typename Product::T>
__global__ void __launch_bounds__(THREADS, 1) CLUSTER_OF(SIZE)
cluster_forward(const Run<V>* __restrict__ about, const V* __restrict__ weight, int64 units, int64 tall,
                int64 sequences, int64 from) {
    const Run<V> run = *about;
    const int size = (int)run.size;
    const Product product(shared, size, Cell::GATES * (int)units, Product::padded(size), (int)tall);
    const InCluster<typename Product::Value, SIZE> passing{product.lefts.tiles, product.lefts.across, product.lefts.tile()};
    steps_forward<Cell>(run, weight, product, passing, (int)units, tall, sequences, from);
}

template <int SIZE, class Cell, class Product, class V = typename Product::T>
__global__ void __launch_bounds__(THREADS, 1) CLUSTER_OF(SIZE)
cluster_backward(const Back<V>* __restrict__ about, const V* __restrict__ weight, int64 units, int64 tall,
                 int64 sequences, int64 from) {
    const Back<V> back = *about;
    const int depth = Cell::GATES * (int)back.size;
    const Product product(shared, depth, (int)units, Product::padded(depth), (int)tall);
    const InCluster<typename Product::Value, SIZE> passing{product.lefts.tiles, product.lefts.across, product.lefts.tile()};
    steps_backward<Cell>(back, weight, product, passing, (int)units, tall, sequences, from);
}
