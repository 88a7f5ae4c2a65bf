//! The meaning of the operations that are exported, after ONNX's own definitions (opset 18): plain loops, to find out
//! whether a file says what the networks say. Of each operation only the forms that are written are known.

mod dense;

use super::graph::{Array, Attribute, Graph, Node, Value};
use dense::{conv, instance_normalisation, matmul, resize};
use std::collections::HashMap;

/// What an operation gives, or why not.
type Answer = Result<Value, String>;

/// The graph's outputs, in their order, for inputs by name.
pub(super) fn run(graph: &Graph, inputs: Vec<(&str, Array<f32>)>) -> Result<Vec<Array<f32>>, String> {
    let mut last_use: HashMap<&str, usize> = HashMap::new();
    for (at, node) in graph.nodes.iter().enumerate() {
        node.inputs.iter().for_each(|name| _ = last_use.insert(name, at));
    }
    let constants: HashMap<&str, &Value> =
        graph.constants.iter().map(|(name, value)| (name.as_str(), value)).collect();
    let mut found: HashMap<&str, Value> =
        inputs.into_iter().map(|(name, array)| (name, Value::Real(array))).collect();
    for (at, node) in graph.nodes.iter().enumerate() {
        let given = node.inputs.iter().filter(|name| !name.is_empty());
        let given = given.map(|name| {
            let name = name.as_str();
            found.get(name).or_else(|| constants.get(name).copied()).ok_or(format!("{name} is not there yet"))
        });
        let answer =
            given.collect::<Result<Vec<_>, _>>().and_then(|given| Operation { node, given }.answer());
        let answer = answer.map_err(|reason| format!("{}: {reason}", node.output))?;
        found.insert(&node.output, answer);
        // Large images would not fit otherwise.
        found.retain(|name, _| {
            last_use.get(name).is_none_or(|&last| last > at)
                || graph.outputs.iter().any(|port| port.name == *name)
        });
    }
    let outputs = graph.outputs.iter().map(|port| match found.remove(port.name.as_str()) {
        Some(Value::Real(array)) => Ok(array),
        _ => Err(format!("there is no output {}", port.name)),
    });
    outputs.collect()
}

/// An operation with its inputs.
struct Operation<'a> {
    node: &'a Node,
    given: Vec<&'a Value>,
}

impl Operation<'_> {
    fn answer(&self) -> Answer {
        let real = |array: Array<f32>| Ok(Value::Real(array));
        match self.node.operation.as_str() {
            "Add" => self.pairs(|a, b| a + b, |a, b| a + b),
            "Sub" => self.pairs(|a, b| a - b, |a, b| a - b),
            "Mul" => self.pairs(|a, b| a * b, |a, b| a * b),
            "Div" => self.pairs(|a, b| a / b, |a, b| a / b),
            "Max" => self.pairs(f32::max, i64::max),
            "Relu" => self.each(|x| x.max(0.0)),
            "Abs" => self.each(f32::abs),
            "Exp" => self.each(f32::exp),
            "Sqrt" => self.each(f32::sqrt),
            "Sigmoid" => self.each(|x| 1.0 / (1.0 + (-x).exp())),
            "Clip" => {
                let (low, high) = (self.real(1)?.values[0], self.real(2)?.values[0]);
                self.each(|x| x.clamp(low, high))
            }
            "Cast" if self.whole_attribute("to", 0) == 1 => {
                let from = self.whole(0)?;
                real(Array::new(&from.dims, from.values.iter().map(|&value| value as f32).collect()))
            }
            "ReduceMin" => self.reduced(|values| values.fold(f64::INFINITY, f64::min)),
            "ReduceMax" => self.reduced(|values| values.fold(f64::NEG_INFINITY, f64::max)),
            "ReduceSum" => self.reduced(|values| values.sum()),
            "ReduceMean" => self.reduced(|values| {
                let count = values.len();
                values.sum::<f64>() / count as f64
            }),
            "Softmax" => self.softmax(),
            "Conv" => {
                real(conv(self.real(0)?, self.real(1)?, self.real(2)?, &self.wholes_attribute("pads"))?)
            }
            "MatMul" => real(matmul(self.real(0)?, self.real(1)?)?),
            "InstanceNormalization" => {
                let epsilon = match self.attribute("epsilon") {
                    Some(Attribute::Real(epsilon)) => *epsilon,
                    _ => return Err("has no epsilon".into()),
                };
                real(instance_normalisation(self.real(0)?, self.real(1)?, self.real(2)?, epsilon)?)
            }
            "Resize" => {
                let how = |name: &str, wanted: &str| matches!(self.attribute(name), Some(Attribute::Text(found)) if found == wanted);
                // The two inputs between image and sizes are left out.
                match how("mode", "linear") && how("coordinate_transformation_mode", "half_pixel") {
                    true => real(resize(self.real(0)?, &self.lengths(1)?)?),
                    false => Err("resizes in a way that is not known".into()),
                }
            }
            "Shape" => {
                let dims = dims(self.given(0)?);
                let start = self.whole_attribute("start", 0) as usize;
                let end = (self.whole_attribute("end", dims.len() as i64) as usize).min(dims.len());
                let lengths: Vec<i64> = dims[start..end].iter().map(|&length| length as i64).collect();
                Ok(Value::Whole(Array::new(&[lengths.len()], lengths)))
            }
            "Reshape" => self.reshaped(),
            "Unsqueeze" => {
                let mut to = dims(self.given(0)?).to_vec();
                self.lengths(1)?.into_iter().for_each(|axis| to.insert(axis, 1));
                self.with_dims(&to)
            }
            "Expand" => {
                let shape = Array::new(&self.lengths(1)?, vec![0.0; self.lengths(1)?.iter().product()]);
                real(pairwise(self.real(0)?, &shape, |value, _| value)?)
            }
            "Concat" => match self.given(0)? {
                Value::Real(_) => real(joined(
                    &(0..self.given.len()).map(|at| self.real(at)).collect::<Result<Vec<_>, _>>()?,
                    self.whole_attribute("axis", 0) as usize,
                )),
                Value::Whole(_) => Ok(Value::Whole(joined(
                    &(0..self.given.len()).map(|at| self.whole(at)).collect::<Result<Vec<_>, _>>()?,
                    self.whole_attribute("axis", 0) as usize,
                ))),
            },
            "Range" => {
                let [start, limit, step] = [0, 1, 2].map(|at| self.whole(at).map(|one| one.values[0]));
                let values: Vec<i64> = (start?..limit?).step_by(step? as usize).collect();
                Ok(Value::Whole(Array::new(&[values.len()], values)))
            }
            other => Err(format!("{other} is not an operation that is known here")),
        }
    }

    fn given(&self, at: usize) -> Result<&Value, String> {
        self.given.get(at).copied().ok_or(format!("has no input {at}"))
    }

    fn real(&self, at: usize) -> Result<&Array<f32>, String> {
        match self.given(at)? {
            Value::Real(array) => Ok(array),
            Value::Whole(_) => Err(format!("input {at} is not f32")),
        }
    }

    fn whole(&self, at: usize) -> Result<&Array<i64>, String> {
        match self.given(at)? {
            Value::Whole(array) => Ok(array),
            Value::Real(_) => Err(format!("input {at} is not i64")),
        }
    }

    fn lengths(&self, at: usize) -> Result<Vec<usize>, String> {
        let all = self.whole(at)?.values.iter();
        all.map(|&value| usize::try_from(value).map_err(|_| format!("{value} is no length"))).collect()
    }

    fn attribute(&self, name: &str) -> Option<&Attribute> {
        self.node.attributes.iter().find(|(other, _)| other == name).map(|(_, value)| value)
    }

    fn whole_attribute(&self, name: &str, default: i64) -> i64 {
        match self.attribute(name) {
            Some(Attribute::Whole(value)) => *value,
            _ => default,
        }
    }

    fn wholes_attribute(&self, name: &str) -> Vec<i64> {
        match self.attribute(name) {
            Some(Attribute::Wholes(values)) => values.clone(),
            _ => Vec::new(),
        }
    }

    fn each(&self, change: impl Fn(f32) -> f32) -> Answer {
        let x = self.real(0)?;
        Ok(Value::Real(Array::new(&x.dims, x.values.iter().map(|&value| change(value)).collect())))
    }

    fn pairs(&self, real: impl Fn(f32, f32) -> f32, whole: impl Fn(i64, i64) -> i64) -> Answer {
        match self.given(0)? {
            Value::Real(a) => Ok(Value::Real(pairwise(a, self.real(1)?, real)?)),
            Value::Whole(a) => Ok(Value::Whole(pairwise(a, self.whole(1)?, whole)?)),
        }
    }

    fn reduced(&self, of: impl Fn(&mut dyn ExactSizeIterator<Item = f64>) -> f64) -> Answer {
        let (x, axes) = (self.real(0)?, self.lengths(1)?);
        let mut kept = x.dims.clone();
        axes.iter().for_each(|&axis| kept[axis] = 1);
        let mut rows: Vec<Vec<f64>> = vec![Vec::new(); kept.iter().product()];
        for (value, row) in x.values.iter().zip(places(&x.dims, &strides(&kept, &x.dims))) {
            rows[row].push(f64::from(*value));
        }
        if self.whole_attribute("keepdims", 1) == 0 {
            kept = (0..kept.len()).filter(|axis| !axes.contains(axis)).map(|axis| kept[axis]).collect();
        }
        let values = rows.into_iter().map(|row| of(&mut row.into_iter()) as f32);
        Ok(Value::Real(Array::new(&kept, values.collect())))
    }

    fn softmax(&self) -> Answer {
        let (x, axis) = (self.real(0)?, self.whole_attribute("axis", -1));
        let axis = usize::try_from(axis).map_err(|_| format!("axis {axis} is not counted from the front"))?;
        let mut kept = x.dims.clone();
        kept[axis] = 1;
        let row_of: Vec<usize> = places(&x.dims, &strides(&kept, &x.dims)).collect();
        let rows: usize = kept.iter().product();
        let (mut highest, mut sums) = (vec![f32::NEG_INFINITY; rows], vec![0.0f64; rows]);
        row_of.iter().zip(&x.values).for_each(|(&row, &value)| highest[row] = highest[row].max(value));
        let powers: Vec<f64> = row_of
            .iter()
            .zip(&x.values)
            .map(|(&row, &value)| f64::from(value - highest[row]).exp())
            .collect();
        row_of.iter().zip(&powers).for_each(|(&row, power)| sums[row] += power);
        let values = row_of.iter().zip(&powers).map(|(&row, power)| (power / sums[row]) as f32);
        Ok(Value::Real(Array::new(&x.dims, values.collect())))
    }

    /// 0 keeps a length, −1 is what is left.
    fn reshaped(&self) -> Answer {
        let from = dims(self.given(0)?);
        let mut to: Vec<i64> = self.whole(1)?.values.clone();
        for (at, length) in to.iter_mut().enumerate().filter(|(_, length)| **length == 0) {
            *length = from[at] as i64;
        }
        let known: i64 = to.iter().filter(|length| **length >= 0).product();
        let volume = from.iter().product::<usize>() as i64;
        to.iter_mut().filter(|length| **length < 0).for_each(|length| *length = volume / known.max(1));
        self.with_dims(&to.iter().map(|&length| length as usize).collect::<Vec<_>>())
    }

    fn with_dims(&self, to: &[usize]) -> Answer {
        let from = self.given(0)?;
        if to.iter().product::<usize>() != dims(from).iter().product::<usize>() {
            return Err(format!("{:?} cannot become {to:?}", dims(from)));
        }
        Ok(match from {
            Value::Real(array) => Value::Real(Array::new(to, array.values.clone())),
            Value::Whole(array) => Value::Whole(Array::new(to, array.values.clone())),
        })
    }
}

fn dims(value: &Value) -> &[usize] {
    match value {
        Value::Real(array) => &array.dims,
        Value::Whole(array) => &array.dims,
    }
}

/// How far apart an array's values are along the axes of a larger shape; 0 where it has one value for all.
fn strides(dims: &[usize], larger: &[usize]) -> Vec<usize> {
    let mut strides = vec![0; larger.len()];
    let mut stride = 1;
    for (axis, &length) in dims.iter().enumerate().rev() {
        strides[larger.len() - dims.len() + axis] = if length == 1 { 0 } else { stride };
        stride *= length;
    }
    strides
}

/// Where each value of a shape is found in an array with these strides.
fn places<'a>(dims: &'a [usize], strides: &'a [usize]) -> impl Iterator<Item = usize> + 'a {
    let (last, step) = (dims.last().copied().unwrap_or(1), strides.last().copied().unwrap_or(0));
    let rows = dims.iter().product::<usize>() / last.max(1);
    (0..rows).flat_map(move |mut row| {
        let mut start = 0;
        for axis in (0..dims.len().saturating_sub(1)).rev() {
            start += row % dims[axis] * strides[axis];
            row /= dims[axis];
        }
        (0..last).map(move |at| start + at * step)
    })
}

/// The shape that two shapes have together: axes of one are as long as the other's.
fn common(a: &[usize], b: &[usize]) -> Result<Vec<usize>, String> {
    let rank = a.len().max(b.len());
    let length = |dims: &[usize], axis: usize| (axis + dims.len()).checked_sub(rank).map_or(1, |at| dims[at]);
    (0..rank)
        .map(|axis| match (length(a, axis), length(b, axis)) {
            (one, other) if one == other || other == 1 => Ok(one),
            (1, other) => Ok(other),
            _ => Err(format!("{a:?} and {b:?} do not suit each other")),
        })
        .collect()
}

fn pairwise<T: Copy>(a: &Array<T>, b: &Array<T>, of: impl Fn(T, T) -> T) -> Result<Array<T>, String> {
    let dims = common(&a.dims, &b.dims)?;
    let (in_a, in_b) = (strides(&a.dims, &dims), strides(&b.dims, &dims));
    let pairs = places(&dims, &in_a).zip(places(&dims, &in_b));
    Ok(Array::new(&dims, pairs.map(|(at_a, at_b)| of(a.values[at_a], b.values[at_b])).collect()))
}

fn joined<T: Copy>(parts: &[&Array<T>], axis: usize) -> Array<T> {
    let mut dims = parts[0].dims.clone();
    dims[axis] = parts.iter().map(|part| part.dims[axis]).sum();
    let before: usize = dims[..axis].iter().product();
    let row = |part: &Array<T>| part.dims[axis..].iter().product::<usize>();
    let mut values = Vec::with_capacity(dims.iter().product());
    for at in 0..before {
        parts.iter().for_each(|part| values.extend(&part.values[at * row(part)..][..row(part)]));
    }
    Array::new(&dims, values)
}

#[cfg(test)]
mod tests;
