//! Elements as they are put into a data set that is written: values by their dictionary type, codes, numbers, UIDs and
//! times.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::{SystemTime, UNIX_EPOCH};

use dicom_core::dictionary::{DataDictionary, DataDictionaryEntry};
use dicom_core::value::DataSetSequence;
use dicom_core::{DataElement, PrimitiveValue, Tag, VR};
use dicom_dictionary_std::{StandardDataDictionary, tags};
use dicom_object::InMemDicomObject;

/// A coded term.
pub(super) fn code(value: &str, scheme: &str, meaning: &str) -> InMemDicomObject {
    let mut item = InMemDicomObject::new_empty();
    put(&mut item, tags::CODE_VALUE, value.to_owned());
    put(&mut item, tags::CODING_SCHEME_DESIGNATOR, scheme.to_owned());
    put(&mut item, tags::CODE_MEANING, meaning.to_owned());
    item
}

/// Puts a value of the type that the dictionary states.
pub(super) fn put(object: &mut InMemDicomObject, tag: Tag, value: impl Into<PrimitiveValue>) {
    let vr = StandardDataDictionary.by_tag(tag).map_or(VR::UN, |entry| entry.vr().relaxed());
    object.put(DataElement::new(tag, vr, value.into()));
}

pub(super) fn put_items(object: &mut InMemDicomObject, tag: Tag, items: Vec<InMemDicomObject>) {
    object.put(DataElement::new(tag, VR::SQ, DataSetSequence::from(items)));
}

/// Numbers as texts of at most 16 characters, as many digits as fit.
pub(super) fn decimals(numbers: &[f64]) -> PrimitiveValue {
    let one = |number: &f64| {
        let plain = (0..=15).rev().map(|digits| format!("{number:.digits$}"));
        let short = [number.to_string()].into_iter().chain(plain).find(|text| text.len() <= 16);
        short.unwrap_or_else(|| format!("{number:.8e}"))
    };
    PrimitiveValue::Strs(numbers.iter().map(one).collect())
}

/// A UID of its own: a random UUID as a number, as PS3.5 B.2 says.
pub(super) fn uid() -> String {
    // Every `RandomState` has keys of its own, which the operating system's randomness began.
    let [high, low] = [0, 1].map(|_| u128::from(RandomState::new().build_hasher().finish()));
    let random = high << 64 | low;
    let version = random & !(0xf << 76) & !(0b11 << 62) | 4 << 76 | 0b10 << 62;
    format!("2.25.{version}")
}

/// Date and time in UTC as DICOM writes them.
pub(super) fn now() -> (String, String) {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
    let (days, second) = ((seconds / 86_400) as i64, seconds % 86_400);
    // Years begin in March, so that leap days end them; eras have 400 years.
    let shifted = days + 719_468;
    let (era, day) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let of_year = day - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let of_month = of_year - (153 * month + 2) / 5 + 1;
    let (month, later) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    let date = format!("{:04}{month:02}{of_month:02}", year + era * 400 + later);
    (date, format!("{:02}{:02}{:02}", second / 3600, second / 60 % 60, second % 60))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_fit_into_sixteen_characters() {
        let PrimitiveValue::Strs(texts) =
            decimals(&[0.5, -123.456_789_012_345_67, 1.0 / 3.0, -1e-7, 1e20, -0.0])
        else {
            panic!("texts")
        };
        for (text, number) in texts.iter().zip([0.5, -123.456_789_012_345_67, 1.0 / 3.0, -1e-7, 1e20, 0.0]) {
            assert!(text.len() <= 16, "{text}");
            let back: f64 = text.parse().unwrap();
            assert!((back - number).abs() <= 1e-8 * number.abs().max(1e-5), "{text} for {number}");
        }
    }

    #[test]
    fn uids_differ_and_are_such() {
        let (one, other) = (uid(), uid());
        assert!(one != other && one.len() <= 64 && one.starts_with("2.25."), "{one}");
        let number: u128 = one[5..].parse().unwrap();
        assert_eq!((number >> 76 & 0xf, number >> 62 & 0b11), (4, 0b10));
        let (date, time) = now();
        assert!(date.len() == 8 && date.as_str() > "20251231" && time.len() == 6, "{date} {time}");
    }
}
