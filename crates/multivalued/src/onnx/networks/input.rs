//! The raw image as the networks take it: resampled and normalised in the graph, as prediction does it before them.

use super::{IMAGE, Layers};
use multivalued_data::normalise::Normalisation;

impl Layers<'_> {
    /// The raw image as the networks take it: in their size, its values normalised plane by plane.
    pub(super) fn prepared(&mut self) -> String {
        let mut image = IMAGE.to_owned();
        if let Some([columns, rows]) = self.recipe.data.resize {
            let by_rows = self.resampling(2, rows);
            image = self.add("MatMul", &[&by_rows, &image]);
            let by_columns = self.resampling(3, columns);
            image = self.add("MatMul", &[&image, &by_columns]);
        }
        self.normalised(&image)
    }

    /// The weights of `Image::resampled` along an axis: [to, from] for rows, [from, to] for columns.
    ///
    /// ```text
    /// w(p, s) ∝ max(1 − |(2p + 1) · from − (2s + 1) · to| / (2 max(from, to)), 0)       place p, source s
    /// ```
    fn resampling(&mut self, axis: i64, to: usize) -> String {
        let (places, sources) = if axis == 2 { ([to, 1], [1, -1]) } else { ([1, to], [-1, 1]) };
        let from = self.shape(IMAGE, axis, axis + 1);
        let no_axes = self.graph.wholes(&[]);
        let [zero, one] = [0, 1].map(|value| {
            let value = self.graph.wholes(&[value]);
            self.add("Reshape", &[&value, &no_axes])
        });
        let limit = self.add("Reshape", &[&from, &no_axes]);
        let source = self.add("Range", &[&zero, &limit, &one]);
        let [two, to_whole] = [2, to as i64].map(|value| self.graph.wholes(&[value]));
        let doubled = self.add("Mul", &[&source, &two]);
        let odd = self.add("Add", &[&doubled, &one]);
        let at_source = self.add("Mul", &[&odd, &to_whole]);
        let sources = self.graph.wholes(&sources);
        let at_source = self.add("Reshape", &[&at_source, &sources]);
        let name = format!("{}{to} places of axis {axis}", self.scope);
        let place = self.graph.sizes(name, &places, (0..to as i64).map(|place| 2 * place + 1).collect());
        let at_place = self.add("Mul", &[&place, &from]);
        let apart = self.add("Sub", &[&at_place, &at_source]);
        let apart = self.as_real(&apart);
        let apart = self.add("Abs", &[&apart]);
        let wider = self.add("Max", &[&from, &to_whole]);
        let reach = self.add("Mul", &[&wider, &two]);
        let reach = self.as_real(&reach);
        let share = self.add("Div", &[&apart, &reach]);
        let one = self.graph.scalar(1.0);
        let near = self.add("Sub", &[&one, &share]);
        let raw = self.add("Relu", &[&near]);
        let over_sources = self.graph.wholes(&[if axis == 2 { 1 } else { 0 }]);
        let total = self.add("ReduceSum", &[&raw, &over_sources]);
        self.add("Div", &[&raw, &total])
    }

    fn normalised(&mut self, image: &str) -> String {
        let pixels = self.graph.wholes(&[2, 3]);
        match self.recipe.data.normalise {
            Normalisation::MinMax => {
                let low = self.add("ReduceMin", &[image, &pixels]);
                let high = self.add("ReduceMax", &[image, &pixels]);
                let range = self.add("Sub", &[&high, &low]);
                let above = self.add("Sub", &[image, &low]);
                self.in_units(&above, &range)
            }
            Normalisation::Range { low, high } => {
                let unit = self.graph.scalar((f64::from(high) - f64::from(low)) as f32);
                let [low, zero, one] = [low, 0.0, 1.0].map(|value| self.graph.scalar(value));
                let above = self.add("Sub", &[image, &low]);
                let share = self.add("Div", &[&above, &unit]);
                self.add("Clip", &[&share, &zero, &one])
            }
            Normalisation::ZScore => {
                // From the smallest value on: a constant plane is zero exactly, and large values lose no digits.
                let low = self.add("ReduceMin", &[image, &pixels]);
                let above = self.add("Sub", &[image, &low]);
                let mean = self.add("ReduceMean", &[&above, &pixels]);
                let centred = self.add("Sub", &[&above, &mean]);
                let squares = self.add("Mul", &[&centred, &centred]);
                let variance = self.add("ReduceMean", &[&squares, &pixels]);
                let deviation = self.add("Sqrt", &[&variance]);
                self.in_units(&centred, &deviation)
            }
        }
    }

    /// Values divided by their plane's unit; where that is zero, so are they.
    fn in_units(&mut self, values: &str, unit: &str) -> String {
        let smallest = self.graph.scalar(f32::MIN_POSITIVE);
        let unit = self.add("Max", &[unit, &smallest]);
        self.add("Div", &[values, &unit])
    }
}
