//! Tensors, a gradient tape and CPU kernels.
