//! Protobuf's wire format, as far as the files need it that are written by hand.
//!
//! ```text
//! field    number << 3 | wire type, as a varint; then the content
//! type 0   a varint: seven bits a byte, the lowest first, the high bit says that more follow
//! type 1   eight bytes      type 5   four bytes      type 2   a length as a varint, and as many bytes
//! ```

fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Adds a field of wire type 0.
pub fn put_number(out: &mut Vec<u8>, field: u64, value: u64) {
    put_varint(out, field << 3);
    put_varint(out, value);
}

/// Adds a field of wire type 1 (eight bytes) or 5 (four bytes).
pub fn put_fixed(out: &mut Vec<u8>, field: u64, bytes: &[u8]) {
    put_varint(out, field << 3 | if bytes.len() == 8 { 1 } else { 5 });
    out.extend(bytes);
}

/// Adds a field of wire type 2: bytes, or text in UTF-8.
pub fn put_bytes(out: &mut Vec<u8>, field: u64, bytes: &[u8]) {
    put_varint(out, field << 3 | 2);
    put_varint(out, bytes.len() as u64);
    out.extend(bytes);
}

/// Adds a field of wire type 2 that holds a message.
pub fn put_message(out: &mut Vec<u8>, field: u64, content: impl FnOnce(&mut Vec<u8>)) {
    let mut message = Vec::new();
    content(&mut message);
    put_bytes(out, field, &message);
}

/// What a field holds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Content<'a> {
    Number(u64),
    Eight([u8; 8]),
    Four([u8; 4]),
    Bytes(&'a [u8]),
}

/// A message's fields in order; none where it is torn or has a wire type that is not read here.
pub(crate) fn fields(mut rest: &[u8]) -> Option<Vec<(u64, Content<'_>)>> {
    let mut found = Vec::new();
    while !rest.is_empty() {
        let key = take_varint(&mut rest)?;
        let content = match key & 7 {
            0 => Content::Number(take_varint(&mut rest)?),
            1 => Content::Eight(take(&mut rest, 8)?.try_into().ok()?),
            2 => {
                let length = usize::try_from(take_varint(&mut rest)?).ok()?;
                Content::Bytes(take(&mut rest, length)?)
            }
            5 => Content::Four(take(&mut rest, 4)?.try_into().ok()?),
            _ => return None,
        };
        found.push((key >> 3, content));
    }
    Some(found)
}

fn take<'a>(rest: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (taken, left) = rest.split_at_checked(length)?;
    *rest = left;
    Some(taken)
}

fn take_varint(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let byte = take(rest, 1)?[0];
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_by_hand_and_back() {
        let mut message = Vec::new();
        put_number(&mut message, 1, 300);
        put_bytes(&mut message, 2, b"ab");
        put_fixed(&mut message, 3, &0.5f32.to_le_bytes());
        put_message(&mut message, 16, |inner| put_number(inner, 1, u64::MAX));
        let number = [&[0xff; 9][..], &[1]].concat();
        let expected = [
            &[0x08, 0xac, 0x02, 0x12, 2, b'a', b'b', 0x1d, 0, 0, 0, 0x3f][..],
            &[0x82, 0x01, 11, 0x08],
            &number,
        ]
        .concat();
        assert_eq!(message, expected);
        let inner = [&[0x08][..], &number].concat();
        assert_eq!(
            fields(&message).unwrap(),
            [
                (1, Content::Number(300)),
                (2, Content::Bytes(b"ab")),
                (3, Content::Four(0.5f32.to_le_bytes())),
                (16, Content::Bytes(&inner)),
            ]
        );
        assert_eq!(fields(&inner).unwrap(), [(1, Content::Number(u64::MAX))]);
        let mut eight = Vec::new();
        put_fixed(&mut eight, 1, &2.0f64.to_le_bytes());
        assert_eq!(fields(&eight).unwrap(), [(1, Content::Eight(2.0f64.to_le_bytes()))]);
    }

    #[test]
    fn torn_messages_are_no_messages() {
        let mut message = Vec::new();
        put_bytes(&mut message, 2, b"abc");
        put_number(&mut message, 1, 300);
        let whole = message.len();
        for length in 1..whole {
            // The one cut that leaves a whole message is the one between the fields.
            assert_eq!(fields(&message[..length]).is_some(), length == 5, "{length}");
        }
        assert_eq!(fields(&[0x0b]), None, "groups are not read");
        assert_eq!(fields(&[[0x08].as_slice(), &[0x80; 11]].concat()), None, "a varint has ten bytes");
    }
}
