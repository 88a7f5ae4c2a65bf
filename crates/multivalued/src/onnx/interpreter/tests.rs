//! The operations by hand.

use super::*;
use crate::onnx::graph::{Axis, Port};

fn wholes(values: &[i64]) -> Value {
    Value::Whole(Array::new(&[values.len()], values.to_vec()))
}

fn reals(dims: &[usize], values: &[f32]) -> Value {
    Value::Real(Array::new(dims, values.to_vec()))
}

fn answer(operation: &str, given: &[&Value], attributes: &[(&str, Attribute)]) -> Answer {
    let attributes = attributes.iter().map(|(name, value)| ((*name).into(), value.clone())).collect();
    let node = Node { operation: operation.into(), inputs: Vec::new(), output: "y".into(), attributes };
    Operation { node: &node, given: given.to_vec() }.answer()
}

#[track_caller]
fn gives(operation: &str, given: &[&Value], attributes: &[(&str, Attribute)], expected: &Value) {
    assert_eq!(&answer(operation, given, attributes).unwrap(), expected, "{operation}");
}

#[test]
fn values_of_one_row_or_column_serve_all() {
    let matrix = reals(&[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let (row, column) = (reals(&[3], &[1.0, 0.0, -1.0]), reals(&[2, 1], &[10.0, 20.0]));
    gives("Add", &[&matrix, &row], &[], &reals(&[2, 3], &[2.0, 2.0, 2.0, 5.0, 5.0, 5.0]));
    gives("Mul", &[&column, &row], &[], &reals(&[2, 3], &[10.0, 0.0, -10.0, 20.0, 0.0, -20.0]));
    gives("Div", &[&wholes(&[7, 1]), &wholes(&[2])], &[], &wholes(&[3, 0]));
    gives("Max", &[&wholes(&[3, 0]), &wholes(&[1])], &[], &wholes(&[3, 1]));
    gives("Sub", &[&reals(&[], &[1.0]), &row], &[], &reals(&[3], &[0.0, 1.0, 2.0]));
    gives(
        "Expand",
        &[&reals(&[2, 1], &[1.0, 2.0]), &wholes(&[2, 2])],
        &[],
        &reals(&[2, 2], &[1.0, 1.0, 2.0, 2.0]),
    );
    assert!(answer("Add", &[&matrix, &reals(&[2], &[0.0; 2])], &[]).unwrap_err().contains("[2, 3] and [2]"));
}

#[test]
fn shapes_are_read_and_changed() {
    let x = reals(&[2, 3, 1], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let range = [("start", Attribute::Whole(1)), ("end", Attribute::Whole(3))];
    gives("Shape", &[&x], &range, &wholes(&[3, 1]));
    gives("Reshape", &[&x, &wholes(&[0, -1])], &[], &reals(&[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]));
    gives("Reshape", &[&wholes(&[5]), &wholes(&[])], &[], &Value::Whole(Array::new(&[], vec![5])));
    gives("Unsqueeze", &[&reals(&[2], &[1.0, 2.0]), &wholes(&[1, 2])], &[], &reals(&[2, 1, 1], &[1.0, 2.0]));
    let both = reals(&[2, 2], &[1.0, 9.0, 2.0, 8.0]);
    let parts = [&reals(&[2, 1], &[1.0, 2.0]), &reals(&[2, 1], &[9.0, 8.0])];
    gives("Concat", &parts, &[("axis", Attribute::Whole(1))], &both);
    gives(
        "Concat",
        &[&wholes(&[1]), &wholes(&[2, 3])],
        &[("axis", Attribute::Whole(0))],
        &wholes(&[1, 2, 3]),
    );
    let [zero, three, one] = [0, 3, 1].map(|value| Value::Whole(Array::new(&[], vec![value])));
    gives("Range", &[&zero, &three, &one], &[], &wholes(&[0, 1, 2]));
    gives("Cast", &[&wholes(&[3])], &[("to", Attribute::Whole(1))], &reals(&[1], &[3.0]));
}

#[test]
fn reductions_and_the_softmax_run_along_their_axes() {
    let x = reals(&[1, 2, 2], &[1.0, 2.0, 3.0, 6.0]);
    gives("ReduceMean", &[&x, &wholes(&[1, 2])], &[("keepdims", Attribute::Whole(0))], &reals(&[1], &[3.0]));
    gives("ReduceSum", &[&x, &wholes(&[1])], &[], &reals(&[1, 1, 2], &[4.0, 8.0]));
    gives("ReduceMax", &[&x, &wholes(&[2])], &[], &reals(&[1, 2, 1], &[2.0, 6.0]));
    gives("ReduceMin", &[&x, &wholes(&[2])], &[], &reals(&[1, 2, 1], &[1.0, 3.0]));
    let even = reals(&[2, 2], &[0.0, 5.0, 0.0, 5.0]);
    gives("Softmax", &[&even], &[("axis", Attribute::Whole(0))], &reals(&[2, 2], &[0.5; 4]));
    let Value::Real(found) = answer("Softmax", &[&even], &[("axis", Attribute::Whole(1))]).unwrap() else {
        panic!("f32");
    };
    assert!((found.values[1] / found.values[0] - 5f32.exp()).abs() < 1e-3, "{found:?}");
    gives(
        "Clip",
        &[&even, &reals(&[], &[1.0]), &reals(&[], &[2.0])],
        &[],
        &reals(&[2, 2], &[1.0, 2.0, 1.0, 2.0]),
    );
    gives("Sigmoid", &[&reals(&[1], &[0.0])], &[], &reals(&[1], &[0.5]));
}

#[test]
fn convolutions_products_and_resizing_by_hand() {
    // Two channels; the kernel is the pixel to the right of the first, and twice the second's own.
    let x = reals(&[1, 2, 2, 2], &[1.0, 2.0, 3.0, 4.0, 10.0, 20.0, 30.0, 40.0]);
    let mut weight = vec![0.0; 18];
    (weight[5], weight[13]) = (1.0, 2.0);
    let weight = reals(&[1, 2, 3, 3], &weight);
    let (bias, pads) = (reals(&[1], &[0.5]), [("pads", Attribute::Wholes(vec![1; 4]))]);
    gives("Conv", &[&x, &weight, &bias], &pads, &reals(&[1, 1, 2, 2], &[22.5, 40.5, 64.5, 80.5]));
    let strided = [("pads", Attribute::Wholes(vec![0; 4]))];
    assert!(answer("Conv", &[&x, &weight, &bias], &strided).unwrap_err().contains("not known"));
    // A kernel that is wider than the image.
    let one = reals(&[1, 2, 1, 1], &[1.0, 3.0]);
    gives("Conv", &[&one, &weight, &bias], &pads, &reals(&[1, 1, 1, 1], &[6.5]));

    let a = reals(&[2, 1, 2], &[1.0, 2.0, 3.0, 4.0]);
    let b = reals(&[2, 2], &[1.0, 0.0, 10.0, 1.0]);
    gives("MatMul", &[&a, &b], &[], &reals(&[2, 1, 2], &[21.0, 2.0, 43.0, 4.0]));
    let c = reals(&[2, 2, 1], &[1.0, 1.0, 1.0, -1.0]);
    gives("MatMul", &[&a, &c], &[], &reals(&[2, 1, 1], &[3.0, -1.0]));

    let how = [("mode", "linear"), ("coordinate_transformation_mode", "half_pixel")];
    let how = how.map(|(name, value)| (name, Attribute::Text(value.into())));
    let line = reals(&[1, 1, 1, 2], &[0.0, 4.0]);
    gives("Resize", &[&line, &wholes(&[1, 1, 1, 4])], &how, &reals(&[1, 1, 1, 4], &[0.0, 1.0, 3.0, 4.0]));
    let square = reals(&[1, 1, 2, 2], &[0.0, 4.0, 8.0, 12.0]);
    gives("Resize", &[&square, &wholes(&[1, 1, 1, 1])], &how, &reals(&[1, 1, 1, 1], &[6.0]));
    assert!(answer("Resize", &[&square, &wholes(&[1, 1, 1, 1])], &[]).is_err());

    let x = reals(&[1, 2, 2], &[1.0, 3.0, 5.0, 5.0]);
    let (scale, shift) = (reals(&[2], &[2.0, 1.0]), reals(&[2], &[0.0, 7.0]));
    assert!(answer("InstanceNormalization", &[&x, &scale, &shift], &[]).unwrap_err().contains("epsilon"));
    let epsilon = [("epsilon", Attribute::Real(3.0))];
    // (x − 2) / √(1 + 3) · 2; a constant channel is its shift.
    gives(
        "InstanceNormalization",
        &[&x, &scale, &shift],
        &epsilon,
        &reals(&[1, 2, 2], &[-1.0, 1.0, 7.0, 7.0]),
    );
}

#[test]
fn a_graph_is_run_in_its_order_and_its_faults_are_named() {
    let mut graph = Graph::default();
    let two = graph.scalar(2.0);
    let doubled = graph.add("", "Mul", &["image", &two], &[]);
    let sum = graph.add("", "Add", &[&doubled, "image"], &[]);
    graph.output(&sum, Port { name: "sum".into(), axes: vec![Axis::Free("n".into())] });
    let image = || vec![("image", Array::new(&[2], vec![1.0, -2.0]))];
    assert_eq!(run(&graph, image()).unwrap(), [Array::new(&[2], vec![3.0, -6.0])]);
    assert!(run(&graph, Vec::new()).unwrap_err().contains("image is not there"));
    graph.nodes[1].operation = "Foo".into();
    assert!(run(&graph, image()).unwrap_err().contains("sum: Foo is not an operation"));
}
