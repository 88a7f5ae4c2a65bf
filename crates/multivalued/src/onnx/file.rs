//! The ONNX file: the messages of `onnx.proto` that a graph needs, written and read.
//!
//! ```text
//! Model      1 ir_version, 2 producer_name, 3 producer_version, 6 doc_string, 7 graph, 8 opset_import, 14 metadata_props
//! Graph      1 node, 2 name, 5 initializer, 11 input, 12 output
//! Node       1 input, 2 output, 3 name, 4 op_type, 5 attribute
//! Attribute  1 name, 2 f, 3 i, 4 s, 8 ints, 20 type (1 f, 2 i, 3 s, 7 ints)
//! Tensor     1 dims, 2 data_type (1 f32, 7 i64), 8 name, 9 raw_data
//! ValueInfo  1 name, 2 type: 1 tensor_type: 1 elem_type, 2 shape: 1 dim: 1 dim_value, 2 dim_param
//! OpsetId    1 domain, 2 version              Entry of metadata_props    1 key, 2 value
//! ```

use super::graph::{Array, Attribute, Axis, Graph, Node, Port, Value};
use crate::protobuf::{Content, fields, put_bytes, put_fixed, put_message, put_number};

/// The version of the file format that came with the operations' version.
const IR_VERSION: u64 = 8;
/// The version of the operations.
pub(super) const OPSET: u64 = 18;

const F32: u64 = 1;
const I64: u64 = 7;

/// A graph and what is said about it.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct File {
    pub graph: Graph,
    pub about: String,
    /// `metadata_props`.
    pub facts: Vec<(String, String)>,
}

impl File {
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        put_number(&mut out, 1, IR_VERSION);
        put_bytes(&mut out, 2, b"multivalued");
        put_bytes(&mut out, 3, env!("CARGO_PKG_VERSION").as_bytes());
        put_bytes(&mut out, 6, self.about.as_bytes());
        put_message(&mut out, 7, |message| put_graph(message, &self.graph));
        put_message(&mut out, 8, |message| {
            put_bytes(message, 1, b"");
            put_number(message, 2, OPSET);
        });
        for (key, value) in &self.facts {
            put_message(&mut out, 14, |message| {
                put_bytes(message, 1, key.as_bytes());
                put_bytes(message, 2, value.as_bytes());
            });
        }
        out
    }

    /// Reads what [`to_bytes`](Self::to_bytes) writes; none where something else is met.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let mut found = Self::default();
        for (field, content) in fields(bytes)? {
            match (field, content) {
                (1, Content::Number(IR_VERSION)) | (2 | 3, Content::Bytes(_)) => {}
                (6, Content::Bytes(about)) => found.about = text(about)?,
                (7, Content::Bytes(graph)) => found.graph = graph_of(graph)?,
                (8, Content::Bytes(opset)) => {
                    let version = [(1, Content::Bytes(b"".as_slice())), (2, Content::Number(OPSET))];
                    if fields(opset)? != version {
                        return None;
                    }
                }
                (14, Content::Bytes(entry)) => match fields(entry)?[..] {
                    [(1, Content::Bytes(key)), (2, Content::Bytes(value))] => {
                        found.facts.push((text(key)?, text(value)?));
                    }
                    _ => return None,
                },
                _ => return None,
            }
        }
        Some(found)
    }
}

fn put_graph(out: &mut Vec<u8>, graph: &Graph) {
    for node in &graph.nodes {
        put_message(out, 1, |message| put_node(message, node));
    }
    put_bytes(out, 2, b"multivalued");
    for (name, value) in &graph.constants {
        put_message(out, 5, |message| put_tensor(message, name, value));
    }
    for (field, ports) in [(11, &graph.inputs), (12, &graph.outputs)] {
        for port in ports {
            put_message(out, field, |message| put_port(message, port));
        }
    }
}

fn put_node(out: &mut Vec<u8>, node: &Node) {
    node.inputs.iter().for_each(|input| put_bytes(out, 1, input.as_bytes()));
    put_bytes(out, 2, node.output.as_bytes());
    put_bytes(out, 3, node.output.as_bytes());
    put_bytes(out, 4, node.operation.as_bytes());
    for (name, attribute) in &node.attributes {
        put_message(out, 5, |message| {
            put_bytes(message, 1, name.as_bytes());
            match attribute {
                Attribute::Real(value) => put_fixed(message, 2, &value.to_le_bytes()),
                Attribute::Whole(value) => put_number(message, 3, *value as u64),
                Attribute::Text(value) => put_bytes(message, 4, value.as_bytes()),
                Attribute::Wholes(values) => {
                    values.iter().for_each(|value| put_number(message, 8, *value as u64));
                }
            }
            put_number(message, 20, kind(attribute));
        });
    }
}

/// The number that `onnx.proto` gives an attribute's type.
fn kind(attribute: &Attribute) -> u64 {
    match attribute {
        Attribute::Real(_) => 1,
        Attribute::Whole(_) => 2,
        Attribute::Text(_) => 3,
        Attribute::Wholes(_) => 7,
    }
}

fn put_tensor(out: &mut Vec<u8>, name: &str, value: &Value) {
    let (dims, kind, raw): (_, _, Vec<u8>) = match value {
        Value::Real(array) => {
            (&array.dims, F32, array.values.iter().flat_map(|value| value.to_le_bytes()).collect())
        }
        Value::Whole(array) => {
            (&array.dims, I64, array.values.iter().flat_map(|value| value.to_le_bytes()).collect())
        }
    };
    dims.iter().for_each(|&length| put_number(out, 1, length as u64));
    put_number(out, 2, kind);
    put_bytes(out, 8, name.as_bytes());
    put_bytes(out, 9, &raw);
}

fn put_port(out: &mut Vec<u8>, port: &Port) {
    put_bytes(out, 1, port.name.as_bytes());
    put_message(out, 2, |kind| {
        put_message(kind, 1, |tensor| {
            put_number(tensor, 1, F32);
            put_message(tensor, 2, |shape| {
                for axis in &port.axes {
                    put_message(shape, 1, |dim| match axis {
                        Axis::Fixed(length) => put_number(dim, 1, *length as u64),
                        Axis::Free(name) => put_bytes(dim, 2, name.as_bytes()),
                    });
                }
            });
        });
    });
}

fn text(bytes: &[u8]) -> Option<String> {
    String::from_utf8(bytes.to_vec()).ok()
}

fn graph_of(bytes: &[u8]) -> Option<Graph> {
    let mut graph = Graph::default();
    for (field, content) in fields(bytes)? {
        match (field, content) {
            (1, Content::Bytes(node)) => graph.nodes.push(node_of(node)?),
            (2, Content::Bytes(_)) => {}
            (5, Content::Bytes(tensor)) => graph.constants.push(tensor_of(tensor)?),
            (11, Content::Bytes(port)) => graph.inputs.push(port_of(port)?),
            (12, Content::Bytes(port)) => graph.outputs.push(port_of(port)?),
            _ => return None,
        }
    }
    Some(graph)
}

fn node_of(bytes: &[u8]) -> Option<Node> {
    let (mut inputs, mut outputs, mut operation, mut attributes) = (vec![], vec![], None, vec![]);
    for (field, content) in fields(bytes)? {
        match (field, content) {
            (1, Content::Bytes(name)) => inputs.push(text(name)?),
            (2, Content::Bytes(name)) => outputs.push(text(name)?),
            (3, Content::Bytes(_)) => {}
            (4, Content::Bytes(name)) => operation = Some(text(name)?),
            (5, Content::Bytes(attribute)) => attributes.push(attribute_of(attribute)?),
            _ => return None,
        }
    }
    let output = outputs.pop().filter(|_| outputs.is_empty())?;
    Some(Node { operation: operation?, inputs, output, attributes })
}

fn attribute_of(bytes: &[u8]) -> Option<(String, Attribute)> {
    let (mut name, mut found, mut wholes, mut stated) = (None, None, vec![], 0);
    for (field, content) in fields(bytes)? {
        match (field, content) {
            (1, Content::Bytes(bytes)) => name = Some(text(bytes)?),
            (2, Content::Four(value)) => found = Some(Attribute::Real(f32::from_le_bytes(value))),
            (3, Content::Number(value)) => found = Some(Attribute::Whole(value as i64)),
            (4, Content::Bytes(value)) => found = Some(Attribute::Text(text(value)?)),
            (8, Content::Number(value)) => wholes.push(value as i64),
            (20, Content::Number(kind)) => stated = kind,
            _ => return None,
        }
    }
    let found = found.unwrap_or(Attribute::Wholes(wholes));
    (kind(&found) == stated).then_some((name?, found))
}

fn tensor_of(bytes: &[u8]) -> Option<(String, Value)> {
    let (mut dims, mut kind, mut name, mut raw) = (vec![], 0, None, &[][..]);
    for (field, content) in fields(bytes)? {
        match (field, content) {
            (1, Content::Number(length)) => dims.push(usize::try_from(length).ok()?),
            (2, Content::Number(number)) => kind = number,
            (8, Content::Bytes(bytes)) => name = Some(text(bytes)?),
            (9, Content::Bytes(bytes)) => raw = bytes,
            _ => return None,
        }
    }
    let width = match kind {
        F32 => 4,
        I64 => 8,
        _ => return None,
    };
    let volume = dims.iter().try_fold(1usize, |volume, &length| volume.checked_mul(length))?;
    if Some(raw.len()) != volume.checked_mul(width) {
        return None;
    }
    let eight = |bytes: &[u8]| bytes.try_into().map(i64::from_le_bytes).expect("eight bytes");
    let four = |bytes: &[u8]| bytes.try_into().map(f32::from_le_bytes).expect("four bytes");
    let value = match kind {
        F32 => Value::Real(Array::new(&dims, raw.chunks_exact(4).map(four).collect())),
        _ => Value::Whole(Array::new(&dims, raw.chunks_exact(8).map(eight).collect())),
    };
    Some((name?, value))
}

fn port_of(bytes: &[u8]) -> Option<Port> {
    let [(1, Content::Bytes(name)), (2, Content::Bytes(kind))] = fields(bytes)?[..] else { return None };
    let [(1, Content::Bytes(tensor))] = fields(kind)?[..] else { return None };
    let [(1, Content::Number(F32)), (2, Content::Bytes(shape))] = fields(tensor)?[..] else { return None };
    let axis = |(field, content): (u64, Content)| match (field, content) {
        (1, Content::Bytes(dim)) => match fields(dim)?[..] {
            [(1, Content::Number(length))] => Some(Axis::Fixed(length as usize)),
            [(2, Content::Bytes(name))] => Some(Axis::Free(text(name)?)),
            _ => None,
        },
        _ => None,
    };
    Some(Port { name: text(name)?, axes: fields(shape)?.into_iter().map(axis).collect::<Option<_>>()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file() -> File {
        let mut graph = Graph::default();
        let weight = graph.constant("weight".into(), &[2, 1], vec![0.5, -1.5]);
        let axes = graph.wholes(&[2, -1]);
        let product = graph.add("a/", "MatMul", &["image", &weight], &[]);
        let attributes = [
            ("epsilon", Attribute::Real(1e-5)),
            ("axis", Attribute::Whole(-1)),
            ("pads", Attribute::Wholes(vec![1, 0, -1])),
            ("mode", Attribute::Text("linear".into())),
        ];
        let last = graph.add("", "Resize", &[&product, "", "", &axes], &attributes);
        let port =
            |name: &str| Port { name: name.into(), axes: vec![Axis::Free("batch".into()), Axis::Fixed(300)] };
        graph.inputs.push(port("image"));
        graph.output(&last, port("logits"));
        File { graph, about: "ε".into(), facts: vec![("views".into(), "1".into())] }
    }

    #[test]
    fn what_is_written_is_read_back() {
        let file = file();
        let bytes = file.to_bytes();
        assert_eq!(File::from_bytes(&bytes).unwrap(), file);
        for length in 0..bytes.len() {
            assert_ne!(File::from_bytes(&bytes[..length]).as_ref(), Some(&file), "{length} bytes");
        }
    }

    /// Field by field, by the numbers of `onnx.proto` alone.
    #[test]
    fn fields_have_the_numbers_of_the_format() {
        let bytes = file().to_bytes();
        let all = |bytes, number| -> Vec<Content> {
            fields(bytes).unwrap().into_iter().filter(|(field, _)| *field == number).map(|(_, c)| c).collect()
        };
        let one = |bytes, number| -> &[u8] {
            let [Content::Bytes(found)] = all(bytes, number)[..] else { panic!("one field {number}") };
            found
        };
        assert_eq!(all(&bytes, 1), [Content::Number(8)]);
        assert_eq!((one(&bytes, 2), one(&bytes, 6)), (b"multivalued".as_slice(), "ε".as_bytes()));
        assert_eq!(fields(one(&bytes, 8)).unwrap(), [(1, Content::Bytes(b"")), (2, Content::Number(18))]);
        assert_eq!(
            fields(one(&bytes, 14)).unwrap(),
            [(1, Content::Bytes(b"views")), (2, Content::Bytes(b"1"))]
        );
        let graph = one(&bytes, 7);
        let nodes: Vec<&[u8]> = all(graph, 1)
            .into_iter()
            .map(|node| if let Content::Bytes(node) = node { node } else { panic!("a node is a message") })
            .collect();
        assert_eq!(nodes.len(), 2);
        assert_eq!(one(nodes[0], 4), b"MatMul");
        assert_eq!(all(nodes[0], 1), [Content::Bytes(b"image"), Content::Bytes(b"weight")]);
        assert_eq!(one(nodes[0], 2), b"a/MatMul_0");
        assert_eq!((one(nodes[1], 4), one(nodes[1], 2)), (b"Resize".as_slice(), b"logits".as_slice()));
        assert_eq!(all(nodes[1], 1)[1..3], [Content::Bytes(b""), Content::Bytes(b"")]);
        let attributes: Vec<_> = all(nodes[1], 5)
            .into_iter()
            .map(|attribute| match attribute {
                Content::Bytes(attribute) => fields(attribute).unwrap(),
                _ => panic!("an attribute is a message"),
            })
            .collect();
        let minus_one = u64::MAX;
        let expected = [
            vec![
                (1, Content::Bytes(b"epsilon")),
                (2, Content::Four(1e-5f32.to_le_bytes())),
                (20, Content::Number(1)),
            ],
            vec![(1, Content::Bytes(b"axis")), (3, Content::Number(minus_one)), (20, Content::Number(2))],
            vec![
                (1, Content::Bytes(b"pads")),
                (8, Content::Number(1)),
                (8, Content::Number(0)),
                (8, Content::Number(minus_one)),
                (20, Content::Number(7)),
            ],
            vec![(1, Content::Bytes(b"mode")), (4, Content::Bytes(b"linear")), (20, Content::Number(3))],
        ];
        assert_eq!(attributes, expected);
        let tensors = all(graph, 5);
        let Content::Bytes(weight) = tensors[0] else { panic!("a tensor is a message") };
        let raw = [0.5f32.to_le_bytes(), (-1.5f32).to_le_bytes()].concat();
        assert_eq!(
            fields(weight).unwrap(),
            [
                (1, Content::Number(2)),
                (1, Content::Number(1)),
                (2, Content::Number(1)),
                (8, Content::Bytes(b"weight")),
                (9, Content::Bytes(&raw)),
            ]
        );
        let Content::Bytes(axes) = tensors[1] else { panic!("a tensor is a message") };
        assert_eq!(all(axes, 2), [Content::Number(7)]);
        assert_eq!(one(axes, 9), [2i64.to_le_bytes(), (-1i64).to_le_bytes()].concat());
        for (number, name) in [(11, b"image".as_slice()), (12, b"logits")] {
            let port = one(graph, number);
            assert_eq!(one(port, 1), name);
            let tensor = one(one(port, 2), 1);
            assert_eq!(all(tensor, 1), [Content::Number(1)]);
            let shape = all(one(tensor, 2), 1);
            let Content::Bytes(batch) = shape[0] else { panic!("an axis is a message") };
            let Content::Bytes(length) = shape[1] else { panic!("an axis is a message") };
            assert_eq!(fields(batch).unwrap(), [(2, Content::Bytes(b"batch"))]);
            assert_eq!(fields(length).unwrap(), [(1, Content::Number(300))]);
        }
    }
}
