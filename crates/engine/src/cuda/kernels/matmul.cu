// Products of f32 matrices of any strides, in batches, exactly in f32: classifier-sized ones, and the
// inner products of masks, which are long and thin and are cut along their inner dimension.

__global__ __launch_bounds__(256) void matmul(const float* a, const float* b, const float* bias, float* out, int m,
                                              int n, int k, int parts, i64 a_row, i64 a_column, i64 a_batch, i64 b_row,
                                              i64 b_column, i64 b_batch) {
    __shared__ float as[16][68], bs[16][68];
    int batch = blockIdx.z / parts, part = blockIdx.z % parts;
    int each = ((k + parts - 1) / parts + 15) / 16 * 16, begin = part * each, end = min(k, begin + each);
    int first_row = blockIdx.x * 64, first_column = blockIdx.y * 64;
    a += batch * a_batch;
    b += batch * b_batch;
    int row = threadIdx.x / 16 * 4, column = threadIdx.x % 16 * 4;
    float sums[4][4] = {};
    for (int at = begin; at < end; at += 16) {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            int unit = threadIdx.x + i * 256;
            // Neighbouring threads read what lies together.
            int inner = a_column == 1 ? unit % 16 : unit / 64, outer = a_column == 1 ? unit / 16 : unit % 64;
            bool valid = first_row + outer < m && at + inner < end;
            as[inner][outer] = valid ? a[(first_row + outer) * a_row + (at + inner) * a_column] : 0.0f;
            inner = b_row == 1 ? unit % 16 : unit / 64, outer = b_row == 1 ? unit / 16 : unit % 64;
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
