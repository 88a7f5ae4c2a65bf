// What every kernel file starts with: the two element types, vectors of eight, tensor-core and
// asynchronous-copy instructions. No CUDA header is included, so none has to be installed.

struct bf16 {
    unsigned short bits;
};

typedef unsigned int u32;
typedef long long i64;

// Division of sizes, which are seldom above 32 bits: a division of 64 bits takes as long as a read from memory.
__device__ __forceinline__ i64 quotient(i64 a, i64 b) {
    return ((a | b) >> 32) == 0 ? (i64)((u32)a / (u32)b) : a / b;
}

struct Divided {
    i64 whole, rest;
};

__device__ __forceinline__ Divided divided(i64 a, i64 b) {
    i64 whole = quotient(a, b);
    return Divided{whole, a - whole * b};
}

__device__ __forceinline__ float to_float(float x) { return x; }
__device__ __forceinline__ float to_float(bf16 x) { return __uint_as_float((u32)x.bits << 16); }

template <class T> __device__ __forceinline__ T from_float(float x);
template <> __device__ __forceinline__ float from_float<float>(float x) { return x; }
template <> __device__ __forceinline__ bf16 from_float<bf16>(float x) {
    bf16 result;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(result.bits) : "f"(x));
    return result;
}

__device__ __forceinline__ u32 pack(float low, float high) {
    u32 result;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(result) : "f"(high), "f"(low));
    return result;
}

// V neighbouring values, V 1 or 8; eight are aligned to 16 bytes.
template <int V> __device__ __forceinline__ void load(const float* from, float* values) {
    if constexpr (V == 8) {
        float4 a = ((const float4*)from)[0], b = ((const float4*)from)[1];
        values[0] = a.x, values[1] = a.y, values[2] = a.z, values[3] = a.w;
        values[4] = b.x, values[5] = b.y, values[6] = b.z, values[7] = b.w;
    } else {
        values[0] = from[0];
    }
}

template <int V> __device__ __forceinline__ void load(const bf16* from, float* values) {
    if constexpr (V == 8) {
        uint4 a = *(const uint4*)from;
        u32 words[4] = {a.x, a.y, a.z, a.w};
#pragma unroll
        for (int i = 0; i < 4; i++) {
            values[2 * i] = __uint_as_float(words[i] << 16);
            values[2 * i + 1] = __uint_as_float(words[i] & 0xffff0000u);
        }
    } else {
        values[0] = to_float(from[0]);
    }
}

template <int V> __device__ __forceinline__ void store(float* to, const float* values) {
    if constexpr (V == 8) {
        ((float4*)to)[0] = make_float4(values[0], values[1], values[2], values[3]);
        ((float4*)to)[1] = make_float4(values[4], values[5], values[6], values[7]);
    } else {
        to[0] = values[0];
    }
}

template <int V> __device__ __forceinline__ void store(bf16* to, const float* values) {
    if constexpr (V == 8) {
        *(uint4*)to = make_uint4(pack(values[0], values[1]), pack(values[2], values[3]),
                                 pack(values[4], values[5]), pack(values[6], values[7]));
    } else {
        to[0] = from_float<bf16>(values[0]);
    }
}

__device__ __forceinline__ float relu_of(float x) { return x < 0.0f ? 0.0f : x; }

// The sum over a warp, known to all its lanes.
__device__ __forceinline__ float warp_sum(float x) {
#pragma unroll
    for (int step = 16; step > 0; step >>= 1) x += __shfl_xor_sync(0xffffffffu, x, step);
    return x;
}

__device__ __forceinline__ float warp_max(float x) {
#pragma unroll
    for (int step = 16; step > 0; step >>= 1) x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, step));
    return x;
}

// The sum over a block of 256 threads, known to its first thread.
__device__ __forceinline__ float block_sum(float x) {
    __shared__ float warps[8];
    x = warp_sum(x);
    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = x;
    __syncthreads();
    x = threadIdx.x < 8 ? warps[threadIdx.x] : 0.0f;
    if (threadIdx.x < 32) x = warp_sum(x);
    __syncthreads();
    return x;
}

// What `combine` makes of all threads of a block of 1024, known to each of them.
template <class T, class Combine> __device__ __forceinline__ T over_block(T x, Combine combine) {
    __shared__ T warps[32];
#pragma unroll
    for (int step = 16; step > 0; step >>= 1) x = combine(x, __shfl_xor_sync(0xffffffffu, x, step));
    __syncthreads(); // An earlier call's values have been read.
    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = x;
    __syncthreads();
    x = warps[threadIdx.x % 32];
#pragma unroll
    for (int step = 16; step > 0; step >>= 1) x = combine(x, __shfl_xor_sync(0xffffffffu, x, step));
    return x;
}
