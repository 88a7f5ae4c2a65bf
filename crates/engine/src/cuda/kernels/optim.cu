// Adam and weight averages over all parameters at once. Block i works on the piece pieces[i] of some
// parameter. A convolution's weights are cast to the activations' type on the way, wherever that was done before.

struct Trained {
    float *value, *m, *v;
    const float* gradient;
    i64 count;
    float rate, decay;
    // Casts of weights [taps, inputs, outputs], as they are and with channels swapped; each may be absent.
    void *cast, *swapped;
    u32 inputs, outputs;
};

struct Piece {
    u32 parameter, first;
};

// PIECE, the values of a piece, is defined by the compiler call.

__global__ void gradient_squares(const Trained* all, const Piece* pieces, float* partial) {
    Piece piece = pieces[blockIdx.x];
    const float* gradient = all[piece.parameter].gradient;
    i64 first = (i64)piece.first * PIECE, end = min(first + PIECE, all[piece.parameter].count);
    float sum = 0.0f;
    for (i64 i = first + threadIdx.x; i < end; i += 256) sum += gradient[i] * gradient[i];
    sum = block_sum(sum);
    if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

// Where a loss is given that is not finite, it takes the norm's place.
__global__ void gradient_norm(const float* partial, float* norm, int count, const float* loss) {
    float sum = 0.0f;
    for (int i = threadIdx.x; i < count; i += 256) sum += partial[i];
    sum = block_sum(sum);
    if (threadIdx.x == 0) *norm = loss && !isfinite(*loss) ? *loss : sqrtf(sum);
}

// Changes nothing where the norm is not finite.
template <int P>
__global__ void adam(const Trained* all, const Piece* pieces, const float* norm_of_all, float max_norm, float beta1,
                     float beta2, float epsilon, float correction1, float correction2) {
    float norm = *norm_of_all;
    if (!isfinite(norm)) return;
    float clip = norm > max_norm ? max_norm / norm : 1.0f;
    Piece piece = pieces[blockIdx.x];
    Trained p = all[piece.parameter];
    float step = p.rate / correction1, decay = p.rate * p.decay;
    i64 first = (i64)piece.first * PIECE, end = min(first + PIECE, p.count);
    for (i64 i = first + threadIdx.x; i < end; i += 256) {
        float g = p.gradient[i] * clip;
        float m = beta1 * p.m[i] + (1.0f - beta1) * g;
        float v = beta2 * p.v[i] + (1.0f - beta2) * g * g;
        p.m[i] = m;
        p.v[i] = v;
        float value = p.value[i];
        value -= step * m / (sqrtf(v) / correction2 + epsilon) + decay * value;
        p.value[i] = value;
        if (p.cast) ((typename Element<P>::type*)p.cast)[i] = cast_weight<P>(value);
        if (p.swapped) {
            u32 input = (u32)i / p.outputs, tap = input / p.inputs;
            u32 to = (tap * p.outputs + (u32)i % p.outputs) * p.inputs + input % p.inputs;
            ((typename Element<P>::type*)p.swapped)[to] = cast_weight<P>(value);
        }
    }
}

// value ← value + share · (gradient − value): here `gradient` is what an average follows.
__global__ void lerp(const Trained* all, const Piece* pieces, float share) {
    Piece piece = pieces[blockIdx.x];
    Trained p = all[piece.parameter];
    i64 first = (i64)piece.first * PIECE, end = min(first + PIECE, p.count);
    for (i64 i = first + threadIdx.x; i < end; i += 256) p.value[i] += share * (p.gradient[i] - p.value[i]);
}
