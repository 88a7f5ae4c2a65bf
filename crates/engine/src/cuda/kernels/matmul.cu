// Defined by the compiler call: TILE, the rows and columns of a block of `matmul`; FEW, the most of `inner_products`.

// Inner products of a few long rows, at most FEW of each side, in batches and parts: out[z, i, j] = Σ_p a[i, p] b[j, p].
// A thread has one sum and reads four values at a time, from tiles whose rows begin at different banks.
__global__ __launch_bounds__(256) void inner_products(const float* a, const float* b, float* out, int m, int n, int k,
                                                      int parts) {
    static_assert(FEW * FEW == 256, "a thread has one sum");
    __shared__ __align__(16) float as[FEW][132], bs[FEW][132];
    int batch = blockIdx.x / parts, part = blockIdx.x % parts;
    int each = ((k + parts - 1) / parts + 127) / 128 * 128, begin = part * each, end = min(k, begin + each);
    a += (i64)batch * m * k;
    b += (i64)batch * n * k;
    int i = threadIdx.x / FEW, j = threadIdx.x % FEW;
    float sum = 0.0f;
    for (int at = begin; at < end; at += 128) {
        for (int unit = threadIdx.x; unit < FEW * 128; unit += 256) {
            int row = unit / 128, inner = unit % 128;
            bool inside = at + inner < end;
            as[row][inner] = inside && row < m ? a[(i64)row * k + at + inner] : 0.0f;
            bs[row][inner] = inside && row < n ? b[(i64)row * k + at + inner] : 0.0f;
        }
        __syncthreads();
#pragma unroll 8
        for (int inner = 0; inner < 128; inner += 4) {
            float4 x = *(const float4*)&as[i][inner], y = *(const float4*)&bs[j][inner];
            sum += x.x * y.x + x.y * y.y + x.z * y.z + x.w * y.w;
        }
        __syncthreads();
    }
    if (i < m && j < n) out[((i64)blockIdx.x * m + i) * n + j] = sum;
}

// Products of f32 matrices of any strides, in batches, exactly in f32: classifier-sized ones, and the
// inner products of masks, which are long and thin and are cut along their inner dimension.

__global__ __launch_bounds__(256) void matmul(const float* a, const float* b, const float* bias, float* out, int m,
                                              int n, int k, int parts, i64 a_row, i64 a_column, i64 a_batch, i64 b_row,
                                              i64 b_column, i64 b_batch) {
    static_assert(TILE == 16 * 4, "a thread has four rows and four columns");
    __shared__ float as[16][TILE + 4], bs[16][TILE + 4];
    int batch = blockIdx.z / parts, part = blockIdx.z % parts;
    int each = ((k + parts - 1) / parts + 15) / 16 * 16, begin = part * each, end = min(k, begin + each);
    int first_row = blockIdx.x * TILE, first_column = blockIdx.y * TILE;
    a += batch * a_batch;
    b += batch * b_batch;
    int row = threadIdx.x / 16 * 4, column = threadIdx.x % 16 * 4;
    float sums[4][4] = {};
    for (int at = begin; at < end; at += 16) {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            int unit = threadIdx.x + i * 256;
            // Neighbouring threads read what lies together.
            int inner = a_column == 1 ? unit % 16 : unit / TILE, outer = a_column == 1 ? unit / 16 : unit % TILE;
            bool valid = first_row + outer < m && at + inner < end;
            as[inner][outer] = valid ? a[(first_row + outer) * a_row + (at + inner) * a_column] : 0.0f;
            inner = b_row == 1 ? unit % 16 : unit / TILE, outer = b_row == 1 ? unit / 16 : unit % TILE;
            valid = first_column + outer < n && at + inner < end;
            bs[inner][outer] = valid ? b[(at + inner) * b_row + (first_column + outer) * b_column] : 0.0f;
        }
        __syncthreads();
#pragma unroll
        for (int i = 0; i < 16; i++) {
            float4 x = *(const float4*)&as[i][row], y = *(const float4*)&bs[i][column];
            float xs[4] = {x.x, x.y, x.z, x.w}, ys[4] = {y.x, y.y, y.z, y.w};
#pragma unroll
            for (int p = 0; p < 4; p++)
#pragma unroll
                for (int q = 0; q < 4; q++) sums[p][q] += xs[p] * ys[q];
        }
        __syncthreads();
    }
    float* to = out + (i64)blockIdx.z * m * n;
#pragma unroll
    for (int p = 0; p < 4; p++)
#pragma unroll
        for (int q = 0; q < 4; q++) {
            int r = first_row + row + p, c = first_column + column + q;
            if (r < m && c < n) to[(i64)r * n + c] = sums[p][q] + (bias ? bias[c] : 0.0f);
        }
}
