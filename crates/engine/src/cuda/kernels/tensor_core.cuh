// Matrix products on the tensor cores, for the convolutions. A row of a tile holds 64 bytes of
// channels: 32 in bf16, 16 in f32. The fragments of both types lie in the same bytes, so that one
// kernel serves all precisions.

enum Precision { F32, TF32, BF16 };

template <int P> struct Element {
    typedef float type;
};
template <> struct Element<BF16> {
    typedef bf16 type;
};

__device__ __forceinline__ u32 shared_address(const void* pointer) {
    return (u32)__cvta_generic_to_shared(pointer);
}

// 16 bytes from global to shared memory, zeros where `valid` is false.
__device__ __forceinline__ void copy_async(u32 to, const void* from, bool valid) {
    int bytes = valid ? 16 : 0;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes));
}

__device__ __forceinline__ void copies_commit() { asm volatile("cp.async.commit_group;"); }
__device__ __forceinline__ void copies_wait() { asm volatile("cp.async.wait_group 0;"); }

// 16 bytes gathered value by value: for channel counts that do not fill 16 bytes.
template <class T> __device__ __forceinline__ void copy_slowly(u32 to, const T* from, int count) {
    constexpr int E = 16 / sizeof(T);
    u32 words[4] = {0, 0, 0, 0};
#pragma unroll
    for (int i = 0; i < E; i++) {
        if (i < count) {
            if constexpr (sizeof(T) == 4) {
                words[i] = __float_as_uint(from[i]);
            } else {
                words[i / 2] |= (u32)from[i].bits << (16 * (i % 2));
            }
        }
    }
    asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(words[0]), "r"(words[1]), "r"(words[2]),
                 "r"(words[3])
                 : "memory");
}

__device__ __forceinline__ void load_matrices(u32 (&r)[4], u32 address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(address)
                 : "memory");
}

__device__ __forceinline__ void load_matrices_transposed(u32 (&r)[4], u32 address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(address)
                 : "memory");
}

__device__ __forceinline__ u32 to_tf32(float x) {
    u32 result;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(result) : "f"(x));
    return result;
}

// A weight as convolutions take it.
template <int P> __device__ __forceinline__ typename Element<P>::type cast_weight(float value) {
    if constexpr (P == TF32) value = __uint_as_float(to_tf32(value));
    return from_float<typename Element<P>::type>(value);
}

__device__ __forceinline__ void multiply_tf32(float (&c)[4], const u32 (&a)[4], u32 b0, u32 b1) {
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ __forceinline__ void multiply_bf16(float (&c)[4], const u32 (&a)[4], u32 b0, u32 b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// N registers of a fragment as the tensor cores want them. F32 keeps what tf32 rounds away in a second
// part; the product of the two second parts is below f32's own rounding.
template <int P, int N> struct Fragment {
    u32 high[N];
    u32 low[P == F32 ? N : 1];

    // `rounded`: the values were rounded to tf32 before.
    template <bool rounded = false> __device__ __forceinline__ void set(const u32 (&raw)[N]) {
#pragma unroll
        for (int i = 0; i < N; i++) {
            if constexpr (P == BF16 || (P == TF32 && rounded)) {
                high[i] = raw[i];
            } else {
                float value = __uint_as_float(raw[i]);
                high[i] = to_tf32(value);
                if constexpr (P == F32) low[i] = to_tf32(value - __uint_as_float(high[i]));
            }
        }
    }
};

template <int P, int N>
__device__ __forceinline__ void multiply(float (&c)[4], const Fragment<P, 4>& a, const Fragment<P, N>& b, int at) {
    if constexpr (P == BF16) {
        multiply_bf16(c, a.high, b.high[at], b.high[at + 1]);
    } else {
        if constexpr (P == F32) {
            multiply_tf32(c, a.low, b.high[at], b.high[at + 1]);
            multiply_tf32(c, a.high, b.low[at], b.low[at + 1]);
        }
        multiply_tf32(c, a.high, b.high[at], b.high[at + 1]);
    }
}

// Lane t of four holds a[j], pairs of columns 8j + 2t; afterwards the pairs of columns 8t + 2j.
__device__ __forceinline__ void exchange(float2 (&a)[4], int lane) {
#pragma unroll
    for (int bit = 1; bit <= 2; bit *= 2) {
        bool upper = lane & bit;
#pragma unroll
        for (int i = 0; i < 4; i++) {
            if (i & bit) continue;
            int j = i | bit;
            float2 sent = upper ? a[i] : a[j];
            sent.x = __shfl_xor_sync(0xffffffffu, sent.x, bit);
            sent.y = __shfl_xor_sync(0xffffffffu, sent.y, bit);
            if (upper) a[i] = sent;
            else a[j] = sent;
        }
    }
}

// How output pixels fall into tiles of tile_h x tile_w.
struct Tiling {
    int batch, height, width;
    int tile_h, tile_w, tiles_y, tiles_x;
};

struct Place {
    int image, y, x;
};

__device__ __forceinline__ Place tile_place(const Tiling& t, int tile) {
    int column = tile % t.tiles_x, rest = tile / t.tiles_x;
    return Place{rest / t.tiles_y, rest % t.tiles_y * t.tile_h, column * t.tile_w};
}

// The end of a convolution: eight neighbouring channels with residual, relu and mask, in the output's type.
template <class T>
__device__ __forceinline__ void write_eight(float (&values)[8], void* out, i64 to, const T* residual, int relu,
                                            const T* mask, int out_f32) {
    float more[8];
    if (residual) {
        load<8>(residual + to, more);
#pragma unroll
        for (int i = 0; i < 8; i++) values[i] += more[i];
    }
    if (relu) {
#pragma unroll
        for (int i = 0; i < 8; i++) values[i] = relu_of(values[i]);
    }
    if (mask) {
        load<8>(mask + to, more);
#pragma unroll
        for (int i = 0; i < 8; i++) values[i] = more[i] > 0.0f ? values[i] : 0.0f;
    }
    if (out_f32) store<8>((float*)out + to, values);
    else store<8>((T*)out + to, values);
}
