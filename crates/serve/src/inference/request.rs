//! A request's JSON. It is read into types that hold no more than a request may have, so that its memory is a small
//! multiple of its length whatever it says.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

use crate::refusal::Refusal;

/// Most inputs, outputs, dimensions and parameters that anything may have.
const MOST: usize = 16;

/// A request.
#[derive(Debug, Deserialize)]
pub struct Request {
    pub id: Option<String>,
    #[serde(default)]
    pub parameters: Parameters,
    pub inputs: Few<Input>,
    #[serde(default)]
    pub outputs: Few<Output>,
}

/// An input tensor.
#[derive(Debug, Deserialize)]
pub struct Input {
    pub name: String,
    pub shape: Few<u64>,
    pub datatype: String,
    #[serde(default)]
    pub parameters: Parameters,
    pub data: Option<Numbers>,
}

/// An output that is asked for.
#[derive(Debug, Deserialize)]
pub struct Output {
    pub name: String,
    #[serde(default)]
    pub parameters: Parameters,
}

impl Request {
    pub fn read(json: &[u8]) -> Result<Self, Refusal> {
        serde_json::from_slice(json).map_err(|error| {
            Refusal::bad(format!("the request is not as the protocol has it: {error}; correct it"))
        })
    }
}

/// At most [`MOST`] of something.
#[derive(Debug)]
pub struct Few<T>(pub Vec<T>);

impl<T> Default for Few<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Few<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct List<T>(std::marker::PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for List<T> {
            type Value = Few<T>;
            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                write!(f, "a list of at most {MOST}")
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Few<T>, A::Error> {
                let mut all = Vec::new();
                while let Some(one) = list.next_element()? {
                    if all.len() == MOST {
                        return Err(A::Error::custom(format!("a list has more than {MOST} entries")));
                    }
                    all.push(one);
                }
                Ok(Few(all))
            }
        }
        deserializer.deserialize_seq(List(std::marker::PhantomData))
    }
}

/// Parameters by name.
#[derive(Debug, Default)]
pub struct Parameters(pub BTreeMap<String, Parameter>);

/// A parameter: the protocol has no lists or objects here.
#[derive(Debug, Clone, PartialEq)]
pub enum Parameter {
    Flag(bool),
    Number(f64),
    Text(String),
}

impl Parameters {
    /// A flag; none where it is not given.
    pub fn flag(&self, name: &str) -> Result<Option<bool>, Refusal> {
        match self.0.get(name) {
            None => Ok(None),
            Some(Parameter::Flag(flag)) => Ok(Some(*flag)),
            Some(_) => Err(Refusal::bad(format!("the parameter '{name}' is true or false; correct it"))),
        }
    }

    /// A whole number; none where it is not given.
    pub fn count(&self, name: &str) -> Result<Option<usize>, Refusal> {
        match self.0.get(name) {
            None => Ok(None),
            Some(Parameter::Number(number)) if *number >= 0.0 && number.fract() == 0.0 && *number < 1e15 => {
                Ok(Some(*number as usize))
            }
            Some(_) => Err(Refusal::bad(format!("the parameter '{name}' is a whole number; correct it"))),
        }
    }

    /// Refuses names that mean nothing here, which would otherwise be passed over in silence.
    pub fn known(&self, place: &str, names: &[&str]) -> Result<(), Refusal> {
        match self.0.keys().find(|name| !names.contains(&name.as_str())) {
            None => Ok(()),
            Some(other) => {
                let other: String = other.chars().take(40).collect();
                Err(Refusal::bad(format!(
                    "{place} has the parameter '{other}', which means nothing here; known are: {}",
                    names.join(", ")
                )))
            }
        }
    }
}

impl<'de> Deserialize<'de> for Parameters {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Map;
        impl<'de> Visitor<'de> for Map {
            type Value = Parameters;
            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                write!(f, "at most {MOST} parameters")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Parameters, A::Error> {
                let mut all = BTreeMap::new();
                while let Some((name, value)) = map.next_entry()? {
                    if all.len() == MOST {
                        return Err(A::Error::custom(format!("more than {MOST} parameters")));
                    }
                    all.insert(name, value);
                }
                Ok(Parameters(all))
            }
        }
        deserializer.deserialize_map(Map)
    }
}

impl<'de> Deserialize<'de> for Parameter {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct One;
        impl Visitor<'_> for One {
            type Value = Parameter;
            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                write!(f, "true, false, a number or a text")
            }
            fn visit_bool<E: Error>(self, flag: bool) -> Result<Parameter, E> {
                Ok(Parameter::Flag(flag))
            }
            fn visit_i64<E: Error>(self, number: i64) -> Result<Parameter, E> {
                Ok(Parameter::Number(number as f64))
            }
            fn visit_u64<E: Error>(self, number: u64) -> Result<Parameter, E> {
                Ok(Parameter::Number(number as f64))
            }
            fn visit_f64<E: Error>(self, number: f64) -> Result<Parameter, E> {
                Ok(Parameter::Number(number))
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<Parameter, E> {
                Ok(Parameter::Text(text.to_owned()))
            }
        }
        deserializer.deserialize_any(One)
    }
}

/// A tensor's values, from a flat or a nested list.
#[derive(Debug, Default)]
pub struct Numbers(pub Vec<f32>);

impl<'de> Deserialize<'de> for Numbers {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut all = Vec::new();
        Level(&mut all).deserialize(deserializer)?;
        Ok(Self(all))
    }
}

/// A number, or a list of such, added to what is there.
struct Level<'a>(&'a mut Vec<f32>);

impl<'de> DeserializeSeed<'de> for Level<'_> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Level<'_> {
    type Value = ();
    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "numbers")
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while list.next_element_seed(Level(self.0))?.is_some() {}
        Ok(())
    }
    fn visit_bool<E: Error>(self, flag: bool) -> Result<(), E> {
        self.0.push(f32::from(u8::from(flag)));
        Ok(())
    }
    fn visit_i64<E: Error>(self, number: i64) -> Result<(), E> {
        self.0.push(number as f32);
        Ok(())
    }
    fn visit_u64<E: Error>(self, number: u64) -> Result<(), E> {
        self.0.push(number as f32);
        Ok(())
    }
    fn visit_f64<E: Error>(self, number: f64) -> Result<(), E> {
        self.0.push(number as f32);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_come_flat_or_nested_and_lists_end() {
        let read = |text: &str| Request::read(text.as_bytes());
        let request = |data: &str| {
            format!(r#"{{"inputs":[{{"name":"image","shape":[2,2],"datatype":"FP32","data":{data}}}]}}"#)
        };
        for data in ["[1,2.5,-3,4e1]", "[[1,2.5],[-3,4e1]]", "[[[1],[2.5]],[[-3],[40]]]"] {
            let found = read(&request(data)).unwrap();
            assert_eq!(found.inputs.0[0].data.as_ref().unwrap().0, [1.0, 2.5, -3.0, 40.0]);
        }
        for (text, says) in [
            ("{}", "inputs"),
            ("[]", "invalid"),
            (&request("{}"), "numbers"),
            (&request(&("[".repeat(200) + &"]".repeat(200))), "recursion"),
            (
                &format!(
                    r#"{{"inputs":[{}]}}"#,
                    vec![r#"{"name":"","shape":[],"datatype":""}"#; 17].join(",")
                ),
                "more than 16",
            ),
            (r#"{"inputs":[],"parameters":{"a":[1]}}"#, "a number or a text"),
        ] {
            let refusal = read(text).unwrap_err();
            assert!(refusal.status == 400 && refusal.message.contains(says), "{text}: {}", refusal.message);
        }
    }

    #[test]
    fn parameters_that_mean_nothing_are_named() {
        let found =
            Request::read(br#"{"inputs":[],"parameters":{"top":3,"tpo":1,"list":-1,"flag":true}}"#).unwrap();
        let parameters = &found.parameters;
        assert_eq!(parameters.count("top").unwrap(), Some(3));
        assert!(parameters.count("list").is_err() && parameters.flag("top").is_err());
        assert_eq!(parameters.flag("flag").unwrap(), Some(true));
        assert!(
            parameters.known("the request", &["top", "list", "flag"]).unwrap_err().message.contains("'tpo'")
        );
    }
}
