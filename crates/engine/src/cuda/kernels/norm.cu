// Group normalisation of images and batch normalisation of features.
//
// WARPS is defined by the compiler call: those of a block whose warps have a row each.

// Adds up two sums of V channels each over the lines of a block, which hold the same channels, and writes them as a
// part of an image's.
template <int V>
__device__ __forceinline__ void write_sums(const float (&sum)[2 * V], float* partial, int groups, int lines,
                                           int channels) {
    __shared__ float sums[256][2 * V];
#pragma unroll
    for (int i = 0; i < 2 * V; i++) sums[threadIdx.x][i] = sum[i];
    __syncthreads();
    for (int unit = threadIdx.x; unit < groups * V; unit += 256) {
        float first = 0.0f, second = 0.0f;
        for (int k = 0; k < lines; k++) {
            first += sums[k * groups + unit / V][unit % V];
            second += sums[k * groups + unit / V][V + unit % V];
        }
        float* to = partial + ((i64)blockIdx.z * gridDim.x + blockIdx.x) * 2 * channels;
        to[blockIdx.y * 256 * V + unit] = first;
        to[channels + blockIdx.y * 256 * V + unit] = second;
    }
}

// Sums of (x − s) and (x − s)² per image and channel, s being the first value of the channel's group:
// near enough to the mean that the difference of squares keeps its digits. gridDim.x parts per image.
template <class T, int V>
__global__ __launch_bounds__(256) void norm_sums(const T* x, float* partial, i64 pixels, int channels, int per_group) {
    int groups = min(channels / V - (int)blockIdx.y * 256, 256), lines = 256 / groups;
    int group = threadIdx.x % groups, line = threadIdx.x / groups;
    int channel = (blockIdx.y * 256 + group) * V;
    const T* image = x + (i64)blockIdx.z * pixels * channels;
    float sum[2 * V] = {}, start[V];
#pragma unroll
    for (int i = 0; i < V; i++) start[i] = to_float(image[(channel + i) / per_group * per_group]);
    if (line < lines)
        for (i64 pixel = (i64)blockIdx.x * lines + line; pixel < pixels; pixel += (i64)gridDim.x * lines) {
            float v[V];
            load<V>(image + pixel * channels + channel, v);
#pragma unroll
            for (int i = 0; i < V; i++) {
                float d = v[i] - start[i];
                sum[i] += d;
                sum[V + i] += d * d;
            }
        }
    write_sums<V>(sum, partial, groups, lines, channels);
}

// Mean and 1/σ of each image's groups: statistics[(image · groups + group) · 2]. A warp per group.
template <class T>
__global__ void norm_statistics(const T* x, const float* sums, float* statistics, i64 rows, int groups, int channels,
                                i64 pixels, float epsilon) {
    i64 row = (i64)blockIdx.x * WARPS + threadIdx.x / 32;
    int lane = threadIdx.x % 32;
    if (row >= rows) return;
    i64 image = row / groups;
    int per_group = channels / groups, first = (int)(row % groups) * per_group;
    float plain = 0.0f, squares = 0.0f;
    for (int i = lane; i < per_group; i += 32) {
        plain += sums[image * 2 * channels + first + i];
        squares += sums[image * 2 * channels + channels + first + i];
    }
    plain = warp_sum(plain);
    squares = warp_sum(squares);
    float count = (float)pixels * per_group, shift = plain / count;
    float variance = fmaxf(squares / count - shift * shift, 0.0f);
    if (lane == 0) {
        statistics[row * 2] = to_float(x[image * pixels * channels + first]) + shift;
        statistics[row * 2 + 1] = rsqrtf(variance + epsilon);
    }
}

// A thread keeps its channels and walks over pixels, so that what belongs to a channel is read once.
template <class T, int V>
__global__ __launch_bounds__(256) void norm_apply(const T* x, const float* statistics, const float* scale,
                                                  const float* shift, const T* residual, T* out, i64 pixels,
                                                  int channels, int groups_of, int relu) {
    int groups = min(channels / V - (int)blockIdx.y * 256, 256), lines = 256 / groups;
    int group = threadIdx.x % groups, line = threadIdx.x / groups;
    int channel = (blockIdx.y * 256 + group) * V, per_group = channels / groups_of;
    if (line >= lines) return;
    i64 base = (i64)blockIdx.z * pixels * channels + channel;
    float mean[V], factor[V], offset[V];
#pragma unroll
    for (int i = 0; i < V; i++) {
        const float* s = statistics + ((i64)blockIdx.z * groups_of + (channel + i) / per_group) * 2;
        mean[i] = s[0], factor[i] = s[1] * scale[channel + i], offset[i] = shift[channel + i];
    }
    for (i64 pixel = (i64)blockIdx.x * lines + line; pixel < pixels; pixel += (i64)gridDim.x * lines) {
        i64 at = base + pixel * channels;
        float v[V], r[V] = {};
        load<V>(x + at, v);
        if (residual) load<V>(residual + at, r);
#pragma unroll
        for (int i = 0; i < V; i++) {
            v[i] = (v[i] - mean[i]) * factor[i] + offset[i] + r[i];
            if (relu) v[i] = relu_of(v[i]);
        }
        store<V>(out + at, v);
    }
}

// Sums of dy and dy · x̂ per image and channel.
template <class T, int V>
__global__ __launch_bounds__(256) void norm_backward_sums(const T* x, const T* dy, const float* statistics,
                                                          float* partial, i64 pixels, int channels, int groups_of) {
    int groups = min(channels / V - (int)blockIdx.y * 256, 256), lines = 256 / groups;
    int group = threadIdx.x % groups, line = threadIdx.x / groups;
    int channel = (blockIdx.y * 256 + group) * V, per_group = channels / groups_of;
    i64 base = (i64)blockIdx.z * pixels * channels;
    float sum[2 * V] = {}, mean[V], inverse[V];
#pragma unroll
    for (int i = 0; i < V; i++) {
        const float* s = statistics + ((i64)blockIdx.z * groups_of + (channel + i) / per_group) * 2;
        mean[i] = s[0], inverse[i] = s[1];
    }
    if (line < lines)
        for (i64 pixel = (i64)blockIdx.x * lines + line; pixel < pixels; pixel += (i64)gridDim.x * lines) {
            float v[V], d[V];
            load<V>(x + base + pixel * channels + channel, v);
            load<V>(dy + base + pixel * channels + channel, d);
#pragma unroll
            for (int i = 0; i < V; i++) {
                sum[i] += d[i];
                sum[V + i] += d[i] * (v[i] - mean[i]) * inverse[i];
            }
        }
    write_sums<V>(sum, partial, groups, lines, channels);
}

// What the sums [batch, 2, channels] mean for scale and shift, a thread per channel.
__global__ void norm_parameter_gradients(const float* sums, float* d_scale, float* d_shift, int batch, int channels) {
    int channel = blockIdx.x * blockDim.x + threadIdx.x;
    if (channel >= channels) return;
    float plain = 0.0f, weighted = 0.0f;
    for (int image = 0; image < batch; image++) {
        plain += sums[(i64)image * 2 * channels + channel];
        weighted += sums[(i64)image * 2 * channels + channels + channel];
    }
    d_scale[channel] = weighted;
    d_shift[channel] = plain;
}

// The means of γ dy and γ dy x̂ over each image's groups: a warp per group.
__global__ void norm_group_means(const float* sums, const float* scale, float* means, i64 rows, int groups,
                                 int channels, i64 pixels) {
    i64 row = (i64)blockIdx.x * WARPS + threadIdx.x / 32;
    int lane = threadIdx.x % 32;
    if (row >= rows) return;
    i64 image = row / groups;
    int per_group = channels / groups, first = (int)(row % groups) * per_group;
    float plain = 0.0f, weighted = 0.0f;
    for (int i = lane; i < per_group; i += 32) {
        plain += scale[first + i] * sums[image * 2 * channels + first + i];
        weighted += scale[first + i] * sums[image * 2 * channels + channels + first + i];
    }
    plain = warp_sum(plain);
    weighted = warp_sum(weighted);
    float count = (float)pixels * per_group;
    if (lane == 0) {
        means[row * 2] = plain / count;
        means[row * 2 + 1] = weighted / count;
    }
}

// dx = (γ dy − mean(γ dy) − x̂ · mean(γ dy x̂)) / σ
template <class T, int V>
__global__ __launch_bounds__(256) void norm_backward(const T* x, const T* dy, const float* statistics,
                                                     const float* means, const float* scale, T* dx, i64 pixels,
                                                     int channels, int groups_of) {
    int groups = min(channels / V - (int)blockIdx.y * 256, 256), lines = 256 / groups;
    int group = threadIdx.x % groups, line = threadIdx.x / groups;
    int channel = (blockIdx.y * 256 + group) * V, per_group = channels / groups_of;
    if (line >= lines) return;
    i64 base = (i64)blockIdx.z * pixels * channels + channel;
    // dx = (γ dy − a − (x − mean) · b) / σ, everything but dy and x known before.
    float mean[V], factor[V], plain[V], weighted[V];
#pragma unroll
    for (int i = 0; i < V; i++) {
        i64 row = ((i64)blockIdx.z * groups_of + (channel + i) / per_group) * 2;
        float inverse = statistics[row + 1];
        mean[i] = statistics[row], factor[i] = scale[channel + i] * inverse;
        plain[i] = means[row] * inverse, weighted[i] = means[row + 1] * inverse * inverse;
    }
    for (i64 pixel = (i64)blockIdx.x * lines + line; pixel < pixels; pixel += (i64)gridDim.x * lines) {
        i64 at = base + pixel * channels;
        float v[V], d[V];
        load<V>(x + at, v);
        load<V>(dy + at, d);
#pragma unroll
        for (int i = 0; i < V; i++) d[i] = factor[i] * d[i] - plain[i] - (v[i] - mean[i]) * weighted[i];
        store<V>(dx + at, d);
    }
}

// Batch normalisation [batch, features], a thread per feature; the mean first, then the variance.
__global__ void batch_norm(const float* x, float* out, float* mean, float* variance, int batch, int features,
                           float epsilon) {
    int f = blockIdx.x * blockDim.x + threadIdx.x;
    if (f >= features) return;
    double sum = 0.0, squares = 0.0;
    for (int i = 0; i < batch; i++) sum += x[(i64)i * features + f];
    double m = sum / batch;
    for (int i = 0; i < batch; i++) {
        double d = x[(i64)i * features + f] - m;
        squares += d * d;
    }
    double v = squares / batch;
    float inverse = (float)(1.0 / sqrt(v + (double)epsilon));
    for (int i = 0; i < batch; i++) out[(i64)i * features + f] = (float)(x[(i64)i * features + f] - m) * inverse;
    mean[f] = (float)m;
    variance[f] = (float)v;
}

__global__ void batch_norm_backward(const float* y, const float* dy, const float* variance, float* dx, int batch,
                                    int features, float epsilon) {
    int f = blockIdx.x * blockDim.x + threadIdx.x;
    if (f >= features) return;
    double plain = 0.0, weighted = 0.0;
    for (int i = 0; i < batch; i++) {
        plain += dy[(i64)i * features + f];
        weighted += (double)dy[(i64)i * features + f] * y[(i64)i * features + f];
    }
    plain /= batch;
    weighted /= batch;
    float inverse = (float)(1.0 / sqrt((double)variance[f] + (double)epsilon));
    for (int i = 0; i < batch; i++) {
        i64 at = (i64)i * features + f;
        dx[at] = (float)(dy[at] - plain - y[at] * weighted) * inverse;
    }
}

// out = (in − mean) / √(variance + ε); without a mean it is the gradient.
__global__ void batch_norm_by(const float* in, const float* mean, const float* variance, float* out, i64 count,
                              int features, float epsilon) {
    for (i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += (i64)gridDim.x * blockDim.x) {
        int f = (int)(i % features);
        out[i] = (in[i] - (mean ? mean[f] : 0.0f)) / sqrtf(variance[f] + epsilon);
    }
}
