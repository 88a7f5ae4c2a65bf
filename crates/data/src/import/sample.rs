//! The number types that NPY and NIfTI store, in either byte order.

/// The stored number types.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sample {
    U8,
    I8,
    U16,
    I16,
    U32,
    I32,
    U64,
    I64,
    F32,
    F64,
}

impl Sample {
    pub fn bytes(self) -> usize {
        match self {
            Self::U8 | Self::I8 => 1,
            Self::U16 | Self::I16 => 2,
            Self::U32 | Self::I32 | Self::F32 => 4,
            Self::U64 | Self::I64 | Self::F64 => 8,
        }
    }

    pub fn full_scale(self) -> Option<f32> {
        match self {
            Self::U8 => Some(255.0),
            Self::U16 => Some(65_535.0),
            _ => None,
        }
    }

    /// The samples of a byte string, as the nearest f32.
    pub fn values(self, bytes: &[u8], big_endian: bool) -> Vec<f32> {
        macro_rules! numbers {
            ($type:ty, $size:literal) => {
                bytes
                    .as_chunks::<$size>()
                    .0
                    .iter()
                    .map(|&word| {
                        (if big_endian { <$type>::from_be_bytes(word) } else { <$type>::from_le_bytes(word) })
                            as f32
                    })
                    .collect()
            };
        }
        match self {
            Self::U8 => bytes.iter().map(|&byte| f32::from(byte)).collect(),
            Self::I8 => bytes.iter().map(|&byte| f32::from(byte.cast_signed())).collect(),
            Self::U16 => numbers!(u16, 2),
            Self::I16 => numbers!(i16, 2),
            Self::U32 => numbers!(u32, 4),
            Self::I32 => numbers!(i32, 4),
            Self::U64 => numbers!(u64, 8),
            Self::I64 => numbers!(i64, 8),
            Self::F32 => numbers!(f32, 4),
            Self::F64 => numbers!(f64, 8),
        }
    }
}
