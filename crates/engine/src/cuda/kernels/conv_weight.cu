// The gradient of a convolution's weights: sums over pixels of input times output gradient, all taps at
// once. Each block walks over every `gridDim.x`-th tile of pixels and keeps MT x NT channels of every
// tap in registers; the partial sums are added afterwards in a fixed order, so that results repeat. The
// bias's gradient is that of one more input, which is one everywhere.
//
// Defined by the compiler call: TILE, the most pixels of a tile; BF16_PADDING and F32_PADDING, the bytes between rows in
// shared memory. WARPS_K warps share the pixels, each with partial sums of its own.

template <int P, int TAPS, int MT, int NT, int WARPS_K>
__global__ __launch_bounds__(256) void conv_weight(const typename Element<P>::type* __restrict__ x,
                                                   const typename Element<P>::type* __restrict__ dy,
                                                   float* __restrict__ partial, float* __restrict__ bias_partial,
                                                   Tiling t, int inputs, int outputs) {
    typedef typename Element<P>::type T;
    constexpr int E = 16 / sizeof(T), R = TAPS == 9 ? 1 : 0;
    // Rows are padded so that the lanes' reads meet different banks.
    constexpr int PADDING = P == BF16 ? BF16_PADDING : F32_PADDING;
    constexpr int XROW = MT * sizeof(T) + PADDING, DROW = NT * sizeof(T) + PADDING;
    constexpr int WARPS_M = MT / 16, WARPS_N = 2;
    static_assert(WARPS_M * WARPS_N * WARPS_K == 8, "a block has eight warps");
    constexpr int WN = NT / WARPS_N, NF = WN / 8, DEPTH = P == BF16 ? 16 : 8;
    extern __shared__ __align__(16) unsigned char memory[];
    __shared__ int places[TILE], coordinates[256];

    const int thread = threadIdx.x, lane = thread % 32, warp = thread / 32;
    const int warp_m = warp % WARPS_M * 16, warp_n = warp / WARPS_M % WARPS_N * WN;
    const int warp_k = warp / (WARPS_M * WARPS_N);
    const int halo_width = t.tile_w + 2 * R, halo = (t.tile_h + 2 * R) * halo_width, pixels = t.tile_h * t.tile_w;
    const int first_input = blockIdx.y * MT, first_output = blockIdx.z * NT;
    const int tiles = t.batch * t.tiles_y * t.tiles_x;
    const int stage = halo * XROW + TILE * DROW;
    const bool x_aligned = inputs % E == 0, dy_aligned = outputs % E == 0;

    // Pixels past the tile's end have no gradient; their input may be any.
    if (thread < TILE) places[thread] = thread < pixels ? thread / t.tile_w * halo_width + thread % t.tile_w : 0;
    if (thread < halo) coordinates[thread] = (thread / halo_width) << 16 | thread % halo_width;
    __syncthreads();

    auto copy = [&](int tile, int which) {
        Place place = tile_place(t, tile);
        u32 to = shared_address(memory) + which * stage;
        const T* image = x + (i64)place.image * t.height * t.width * inputs;
        int channel = first_input + thread % (MT / E) * E;
        for (int pixel = thread / (MT / E); pixel < halo; pixel += 256 / (MT / E)) {
            int coordinate = coordinates[pixel];
            int y = place.y + (coordinate >> 16) - R, at = place.x + (coordinate & 0xffff) - R;
            bool valid = channel < inputs && (u32)y < (u32)t.height && (u32)at < (u32)t.width;
            const T* source = image + ((i64)(y * t.width + at) * inputs + channel);
            u32 target = to + pixel * XROW + thread % (MT / E) * 16;
            if (x_aligned) copy_async(target, source, valid);
            else copy_slowly(target, source, valid ? inputs - channel : 0);
        }
        to += halo * XROW;
        const T* gradient = dy + (i64)place.image * t.height * t.width * outputs;
        channel = first_output + thread % (NT / E) * E;
        for (int pixel = thread / (NT / E); pixel < TILE; pixel += 256 / (NT / E)) {
            int coordinate = coordinates[places[pixel]];
            int y = place.y + (coordinate >> 16), at = place.x + (coordinate & 0xffff);
            bool valid = channel < outputs && pixel < pixels && y < t.height && at < t.width;
            const T* source = gradient + ((i64)(y * t.width + at) * outputs + channel);
            u32 target = to + pixel * DROW + thread % (NT / E) * 16;
            if (dy_aligned) copy_async(target, source, valid);
            else copy_slowly(target, source, valid ? outputs - channel : 0);
        }
        copies_commit();
    };

    const bool sums_bias = bias_partial && blockIdx.y == 0 && warp_m == 0;
    Fragment<P, 4> ones;
    {
        u32 one = P == BF16 ? 0x3f803f80u : 0x3f800000u, raw[4] = {one, one, one, one};
        ones.set(raw);
    }
    float bias_sums[NF][4] = {};
    float sums[TAPS][NF][4] = {};
    int which = 0;
    if (blockIdx.x < tiles) copy(blockIdx.x, 0);
    for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x, which ^= 1) {
        copies_wait();
        __syncthreads();
        if (tile + (int)gridDim.x < tiles) copy(tile + gridDim.x, which ^ 1);
        const unsigned char* x_tile = memory + which * stage;
        const unsigned char* dy_tile = x_tile + halo * XROW;
        for (int step = warp_k; step < TILE / DEPTH; step += WARPS_K) {
            Fragment<P, 2 * NF> b;
            if constexpr (P == BF16) {
                u32 row = shared_address(dy_tile) + (step * 16 + lane % 16) * DROW + (warp_n + lane / 16 * 8) * 2;
#pragma unroll
                for (int n = 0; n < NF / 2; n++) {
                    u32 raw[4];
                    load_matrices_transposed(raw, row + n * 32);
#pragma unroll
                    for (int i = 0; i < 4; i++) b.high[4 * n + i] = raw[i];
                }
                if (sums_bias) {
#pragma unroll
                    for (int n = 0; n < NF; n++) multiply<P, 2 * NF>(bias_sums[n], ones, b, 2 * n);
                }
                u32 column = shared_address(x_tile) + places[step * 16 + lane % 8 + lane / 16 * 8] * XROW +
                             (warp_m + lane / 8 % 2 * 8) * 2;
#pragma unroll
                for (int tap = 0; tap < TAPS; tap++) {
                    Fragment<P, 4> a;
                    u32 raw[4];
                    load_matrices_transposed(raw, column + (TAPS == 9 ? tap / 3 * halo_width + tap % 3 : 0) * XROW);
                    a.set(raw);
#pragma unroll
                    for (int n = 0; n < NF; n++) multiply<P, 2 * NF>(sums[tap][n], a, b, 2 * n);
                }
            } else {
                int k = step * 8 + lane % 4;
                u32 raw_b[2 * NF];
#pragma unroll
                for (int n = 0; n < NF; n++)
#pragma unroll
                    for (int i = 0; i < 2; i++)
                        raw_b[2 * n + i] =
                            *(const u32*)(dy_tile + (k + 4 * i) * DROW + (warp_n + n * 8 + lane / 4) * 4);
                b.set(raw_b);
                if (sums_bias) {
#pragma unroll
                    for (int n = 0; n < NF; n++) multiply<P, 2 * NF>(bias_sums[n], ones, b, 2 * n);
                }
                const unsigned char* column = x_tile + (warp_m + lane / 4) * 4;
                int first = places[k] * XROW, second = places[k + 4] * XROW;
#pragma unroll
                for (int tap = 0; tap < TAPS; tap++) {
                    int shift = (TAPS == 9 ? tap / 3 * halo_width + tap % 3 : 0) * XROW;
                    Fragment<P, 4> a;
                    u32 raw[4] = {*(const u32*)(column + first + shift), *(const u32*)(column + first + shift + 32),
                                  *(const u32*)(column + second + shift), *(const u32*)(column + second + shift + 32)};
                    a.set(raw);
#pragma unroll
                    for (int n = 0; n < NF; n++) multiply<P, 2 * NF>(sums[tap][n], a, b, 2 * n);
                }
            }
        }
    }

    if (sums_bias && lane < 4) {
#pragma unroll
        for (int n = 0; n < NF; n++)
#pragma unroll
            for (int i = 0; i < 2; i++) {
                int o = first_output + warp_n + n * 8 + lane * 2 + i;
                if (o < outputs) bias_partial[(i64)(blockIdx.x * WARPS_K + warp_k) * outputs + o] = bias_sums[n][i];
            }
    }
    float* to = partial + (i64)(blockIdx.x * WARPS_K + warp_k) * TAPS * inputs * outputs;
#pragma unroll
    for (int tap = 0; tap < TAPS; tap++)
#pragma unroll
        for (int n = 0; n < NF; n++)
#pragma unroll
            for (int i = 0; i < 4; i++) {
                int c = first_input + warp_m + lane / 4 + i / 2 * 8;
                int o = first_output + warp_n + n * 8 + lane % 4 * 2 + i % 2;
                if (c < inputs && o < outputs) to[((i64)tap * inputs + c) * outputs + o] = sums[tap][n][i];
            }
}

// Weights [taps, inputs, outputs] as the tensor cores take them, with or without the channels swapped.
template <int P>
__global__ void cast_weights(const float* __restrict__ weight, typename Element<P>::type* __restrict__ out, int inputs,
                            int outputs, int swap, int count) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    int from = i;
    if (swap) {
        int c = i % inputs, o = i / inputs % outputs, tap = i / (inputs * outputs);
        from = (tap * inputs + c) * outputs + o;
    }
    out[i] = cast_weight<P>(weight[from]);
}
