// Hopper's matrix products of a warpgroup (128 threads), for the convolutions: the tensor cores read both operands
// from shared memory themselves.
//
// Tiles of pixels come by the copy engine (a tensor map says where from; what lies outside of an image is zero): rows of
// 64 or 128 bytes, one pixel after the other, their 16-byte pieces exchanged by the bits of the address (SWIZZLE), so that
// no two of eight rows meet a bank. As that depends on the address alone, a tap of a convolution is only another start
// address. A descriptor gives the start and the steps between groups of eight rows; one pixel is one row.

typedef unsigned long long u64;

struct __align__(64) TensorMap {
    u64 opaque[16];
};

// `block_step`: between blocks of a row's length, where an operand's outer dimension is contiguous and has several.
template <int ROW> __device__ __forceinline__ u64 operand(u32 start, u32 block_step, u32 group_step) {
    constexpr u64 SWIZZLE = ROW == 128 ? 1 : 2;
    return (u64)((start & 0x3ffff) >> 4) | (u64)(block_step >> 4) << 16 | (u64)(group_step >> 4) << 32 | SWIZZLE << 62;
}

// Where the next tile may begin: the bits of an address that the swizzle exchanges begin anew at multiples of ALIGNMENT.
__device__ __forceinline__ constexpr u32 aligned(u32 address) {
    return (address + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

// Barriers that copies and warps arrive at; `phase` is the parity of the round that is waited for.
__device__ __forceinline__ void barrier_make(u32 barrier, int count) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(count) : "memory");
}
__device__ __forceinline__ void barriers_publish() {
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
__device__ __forceinline__ void barrier_expect(u32 barrier, u32 bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}
__device__ __forceinline__ void barrier_arrive(u32 barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
__device__ __forceinline__ void barrier_wait(u32 barrier, u32 phase) {
    asm volatile("{.reg .pred p;\n"
                 "again: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n"
                 "@!p bra again;}" ::"r"(barrier), "r"(phase) : "memory");
}

// Boxes of images [batch, height, width, channels] and of weights [taps, outputs, inputs].
__device__ __forceinline__ void copy_box(u32 to, const TensorMap* map, u32 barrier, int channel, int x, int y, int image) {
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, "
                 "%6}], [%2];" ::"r"(to), "l"(map), "r"(barrier), "r"(channel), "r"(x), "r"(y), "r"(image) : "memory");
}
__device__ __forceinline__ void copy_box(u32 to, const TensorMap* map, u32 barrier, int input, int output, int tap) {
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, "
                 "%5}], [%2];" ::"r"(to), "l"(map), "r"(barrier), "r"(input), "r"(output), "r"(tap) : "memory");
}

// A ring of slots: where it stands, and the parity of its round.
struct Ring {
    int at;
    u32 phase;

    __device__ __forceinline__ void next(int slots) {
        if (++at == slots) at = 0, phase ^= 1;
    }
};

// Before the first product, and after registers of its sums were changed by other instructions.
__device__ __forceinline__ void products_begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void products_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int PENDING> __device__ __forceinline__ void products_wait() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory");
}

// Keeps the compiler from using sums before they are waited for.
template <int N> __device__ __forceinline__ void hold(float (&sums)[N]) {
#pragma unroll
    for (int i = 0; i < N; i++) asm volatile("" : "+f"(sums[i])::"memory");
}

#define SUMS_8(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), \
        "+f"(d[i + 6]), "+f"(d[i + 7])
#define SUMS_16(i) SUMS_8(i), SUMS_8(i + 8)
#define SUMS_32(i) SUMS_16(i), SUMS_16(i + 16)
#define SUMS_48(i) SUMS_32(i), SUMS_16(i + 32)
#define SUMS_64(i) SUMS_32(i), SUMS_32(i + 32)
#define NAMES_8 "%0, %1, %2, %3, %4, %5, %6, %7"
#define NAMES_16 NAMES_8 ", %8, %9, %10, %11, %12, %13, %14, %15"
#define NAMES_32 NAMES_16 ", %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define NAMES_48 NAMES_32 ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47"
#define NAMES_64 NAMES_48 ", %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"

// One instruction; `COUNT` sums of a thread, and the names of what comes after them.
#define MULTIPLY(COUNT, KIND, A, B, ADD, TRANSPOSED)                                                                   \
    asm volatile("{.reg .pred p; setp.ne.b32 p, %" ADD ", 0; wgmma.mma_async.sync.aligned." KIND " {" NAMES_##COUNT \
                 "}, %" A ", %" B ", p, 1, 1" TRANSPOSED ";}"                                                          \
                 : SUMS_##COUNT(0)                                                                                     \
                 : "l"(a), "l"(b), "r"(add))

// d (64 x N) ← a · b, or += where `add`; 32 bytes of the inner dimension.
template <int P, int N> struct Product;
#define PRODUCT(N, COUNT, A, B, ADD)                                                                   \
    template <> struct Product<BF16, N> {                                                              \
        static __device__ __forceinline__ void run(float (&d)[COUNT], u64 a, u64 b, int add) {         \
            MULTIPLY(COUNT, "m64n" #N "k16.f32.bf16.bf16", A, B, ADD, ", 0, 0");                       \
        }                                                                                              \
    };                                                                                                 \
    template <> struct Product<TF32, N> {                                                              \
        static __device__ __forceinline__ void run(float (&d)[COUNT], u64 a, u64 b, int add) {         \
            MULTIPLY(COUNT, "m64n" #N "k8.f32.tf32.tf32", A, B, ADD, "");                              \
        }                                                                                              \
    };
PRODUCT(16, 8, "8", "9", "10")
PRODUCT(32, 16, "16", "17", "18")
PRODUCT(64, 32, "32", "33", "34")
PRODUCT(96, 48, "48", "49", "50")
PRODUCT(128, 64, "64", "65", "66")

// The same of two operands whose outer dimension is the contiguous one: sums over pixels.
__device__ __forceinline__ void multiply_transposed(float (&d)[32], u64 a, u64 b, int add) {
    MULTIPLY(32, "m64n64k16.f32.bf16.bf16", "32", "33", "34", ", 1, 1");
}

// d (64 x N) += a · b in tf32, `a` from registers: of lane l the rows l / 4 and eight below, columns l % 4 and four on.
#define FROM_REGISTERS(N, COUNT, A0, A1, A2, A3, B)                                                                   \
    __device__ __forceinline__ void multiply_from_registers(float (&d)[COUNT], const u32* a, u64 b) {                  \
        asm volatile("wgmma.mma_async.sync.aligned.m64n" #N "k8.f32.tf32.tf32 {" NAMES_##COUNT "}, {%" A0 ", %" A1     \
                     ", %" A2 ", %" A3 "}, %" B ", 1, 1, 1;"                                                            \
                     : SUMS_##COUNT(0)                                                                                 \
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));                                            \
    }
FROM_REGISTERS(32, 16, "16", "17", "18", "19", "20")
FROM_REGISTERS(64, 32, "32", "33", "34", "35", "36")

// How output pixels fall into units of 64, the rows of a product: squares of eight by eight (`linear` 0), or chunks
// of 64 of the image with a column of zeros at both sides, read line by line.
struct Units {
    int batch, height, width;
    // Pixels between lines of a box, units of an image, of a line of squares, and lines of a box.
    int box_width, linear, per_image, along, lines;
};

struct Unit {
    int image, y, x;
    // The pixels of its box that come before its first one.
    int offset;
};

template <int KERNEL> __device__ __forceinline__ Unit unit_of(const Units& t, int unit) {
    if (KERNEL == 1) return Unit{0, 0, unit * 64, 0};
    int image = unit / t.per_image, rest = unit % t.per_image;
    if (t.linear) {
        int line = rest * 64 / t.box_width;
        return Unit{image, line, 0, rest * 64 - line * t.box_width};
    }
    int line = rest / t.along;
    return Unit{image, line * 8, (rest - line * t.along) * 8, 0};
}

// Output pixel `i` of a unit, counted over the batch; −1 outside of the image.
template <int KERNEL> __device__ __forceinline__ int pixel_of(const Units& t, const Unit& unit, int i) {
    if (KERNEL == 1) return unit.x + i < t.width ? unit.x + i : -1;
    int line = i / 8, column = i % 8;
    if (t.linear) {
        i += unit.offset;
        line = i / t.box_width, column = i % t.box_width;
    }
    int y = unit.y + line, x = unit.x + column;
    bool inside = unit.image < t.batch && y < t.height && x < t.width;
    return inside ? (unit.image * t.height + y) * t.width + x : -1;
}
