//! Launching kernels, and telling the tensor memory accelerator of tensors.

use super::super::Buffer;
use super::super::driver::or_fail;
use super::super::error::fail;
use super::super::launch::{Arg, Boxes, Grid, TensorMap};
use super::Cuda;
use crate::backend::Element;
use crate::tensor::OTHER_DEVICE;
use cudarc::driver::sys;

impl Cuda {
    /// Puts a kernel into the queue.
    pub(crate) fn launch(&self, kernel: &str, grid: Grid, args: &[Arg]) {
        let Some(&function) = self.0.kernels.get(kernel) else { panic!("there is no kernel {kernel}") };
        if grid.blocks.contains(&0) {
            return; // Nothing to compute, which the driver would refuse.
        }
        self.make_current();
        let mut pointers: Vec<*mut std::ffi::c_void> = args
            .iter()
            .map(|arg| match arg {
                Arg::Pointer(value) => std::ptr::from_ref(value).cast_mut().cast(),
                Arg::Buffer(value, device) => {
                    // Another device's stream may still be writing it.
                    assert_eq!(*device, self.identity(), "{OTHER_DEVICE}");
                    std::ptr::from_ref(value).cast_mut().cast()
                }
                Arg::Int(value) => std::ptr::from_ref(value).cast_mut().cast(),
                Arg::Long(value) => std::ptr::from_ref(value).cast_mut().cast(),
                Arg::Float(value) => std::ptr::from_ref(value).cast_mut().cast(),
                Arg::Ints(values) => std::ptr::from_ref(values).cast_mut().cast(),
                Arg::Map(map) => std::ptr::from_ref(map).cast_mut().cast(),
            })
            .collect();
        grid.check(kernel).unwrap_or_else(|error| fail(error));
        let [x, y, z] = grid.blocks.map(|size| size as u32);
        let [threads_x, threads_y] = grid.threads.map(|size| size as u32);
        let timed = self.0.timer.start(self.0.stream, || format!("{kernel} {:?}", grid.blocks));
        // SAFETY: the callers in this folder give each kernel the arguments its source declares, and
        // buffers of the sizes its shapes say; the driver copies the arguments before it returns.
        let result = unsafe {
            let (shared, extra) = (grid.shared as u32, std::ptr::null_mut());
            let stream = self.0.stream;
            sys::cuLaunchKernel(
                function,
                x,
                y,
                z,
                threads_x,
                threads_y,
                1,
                shared,
                stream,
                pointers.as_mut_ptr(),
                extra,
            )
        };
        or_fail(result, kernel);
        if let Some(end) = timed {
            end.record(self.0.stream);
        }
    }

    /// Tells the tensor memory accelerator (TMA) of a tensor. f32 values are rounded to tf32 on the way.
    pub(in super::super) fn tensor_map(&self, buffer: &Buffer, boxes: Boxes) -> Arg {
        let pointer = self.address_of(buffer);
        let (size, kind) = match buffer.element() {
            Element::Bf16 => (2, sys::CUtensorMapDataType::CU_TENSOR_MAP_DATA_TYPE_BFLOAT16),
            Element::F32 => (4, sys::CUtensorMapDataType::CU_TENSOR_MAP_DATA_TYPE_TFLOAT32),
        };
        let swizzle = match boxes.row {
            128 => sys::CUtensorMapSwizzle::CU_TENSOR_MAP_SWIZZLE_128B,
            _ => sys::CUtensorMapSwizzle::CU_TENSOR_MAP_SWIZZLE_64B,
        };
        let sizes: Vec<u64> = boxes.sizes.iter().map(|&size| size as u64).collect();
        let of: Vec<u32> = boxes.of.iter().map(|&size| size as u32).collect();
        let (mut strides, ones) = (vec![sizes[0] * size], vec![1; sizes.len()]);
        sizes[1..sizes.len() - 1].iter().for_each(|size| strides.push(strides[strides.len() - 1] * size));
        let mut map = TensorMap([0; 16]);
        // SAFETY: a place of a map's size and alignment; all lists are as long as the rank says, strides one less.
        let result = unsafe {
            sys::cuTensorMapEncodeTiled(
                std::ptr::from_mut(&mut map).cast(),
                kind,
                sizes.len() as u32,
                pointer as *mut std::ffi::c_void,
                sizes.as_ptr(),
                strides.as_ptr(),
                of.as_ptr(),
                ones.as_ptr(),
                sys::CUtensorMapInterleave::CU_TENSOR_MAP_INTERLEAVE_NONE,
                swizzle,
                sys::CUtensorMapL2promotion::CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
                sys::CUtensorMapFloatOOBfill::CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
            )
        };
        or_fail(result, "describing a tensor to the tensor memory accelerator (TMA)");
        Arg::Map(map)
    }
}
