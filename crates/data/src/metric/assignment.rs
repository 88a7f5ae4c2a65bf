//! The assignment problem, exactly: shortest augmenting paths with potentials (Kuhn, Munkres, Jonker and
//! Volgenant), O(rows² columns).

/// For each row the column it gets, each column at most once, so that the sum of costs is least.
/// There must be at least as many columns as rows.
pub fn cheapest(rows: usize, columns: usize, cost: impl Fn(usize, usize) -> f64) -> Vec<usize> {
    assert!(rows <= columns, "{rows} rows cannot each have one of {columns} columns");
    const FREE: usize = usize::MAX;
    let mut row_potential = vec![0.0; rows];
    let mut column_potential = vec![0.0; columns];
    let mut row_of = vec![FREE; columns];
    for start in 0..rows {
        let mut distance = vec![f64::INFINITY; columns];
        let mut previous = vec![FREE; columns];
        let mut settled = vec![false; columns];
        let mut row = start;
        let mut from = FREE;
        let end = loop {
            let mut next = FREE;
            for column in (0..columns).filter(|&c| !settled[c]) {
                let reach = cost(row, column) - row_potential[row] - column_potential[column];
                if reach < distance[column] {
                    distance[column] = reach;
                    previous[column] = from;
                }
                if next == FREE || distance[column] < distance[next] {
                    next = column;
                }
            }
            // Shift the potentials by the step just taken: the tree's arcs stay at reduced cost zero.
            let step = distance[next];
            row_potential[start] += step;
            for column in 0..columns {
                if settled[column] {
                    row_potential[row_of[column]] += step;
                    column_potential[column] -= step;
                } else {
                    distance[column] -= step;
                }
            }
            if row_of[next] == FREE {
                break next;
            }
            settled[next] = true;
            from = next;
            row = row_of[next];
        };
        let mut column = end;
        while previous[column] != FREE {
            row_of[column] = row_of[previous[column]];
            column = previous[column];
        }
        row_of[column] = start;
    }
    let mut column_of = vec![FREE; rows];
    for (column, &row) in row_of.iter().enumerate().filter(|(_, row)| **row != FREE) {
        column_of[row] = column;
    }
    column_of
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_problems_by_hand() {
        let square = [[4.0, 1.0, 3.0], [2.0, 0.0, 5.0], [3.0, 2.0, 2.0]];
        assert_eq!(cheapest(3, 3, |r, c| square[r][c]), [1, 0, 2]);
        let wide = [[1.0, 2.0, 9.0], [1.0, 5.0, 9.0]];
        assert_eq!(cheapest(2, 3, |r, c| wide[r][c]), [1, 0]);
        assert_eq!(cheapest(1, 2, |_, c| [0.5, 0.25][c]), [1]);
    }
}
