//! Cuts what is to be sent into calls that SQS takes.

use super::line::{Content, MOST_BYTES};
use crate::messages::MOST_ENTRIES;

/// Cuts `items` into batches, in their order: as few as their sizes allow.
pub(super) fn cut<T>(items: Vec<T>, content: impl Fn(&T) -> &Content) -> Vec<Vec<T>> {
    let mut batches: Vec<Vec<T>> = Vec::new();
    let mut bytes = 0;
    for item in items {
        let size = content(&item).bytes();
        match batches.last_mut() {
            Some(batch) if batch.len() < MOST_ENTRIES && bytes + size <= MOST_BYTES => {
                batch.push(item);
                bytes += size;
            }
            _ => {
                batches.push(vec![item]);
                bytes = size;
            }
        }
    }
    batches
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(sizes: &[usize], expected: &[usize]) {
        let of_size = |size: &usize| Content { body: "x".repeat(*size), ..Content::default() };
        let batches = cut(sizes.iter().map(of_size).collect(), |content| content);
        let counts: Vec<_> = batches.iter().map(Vec::len).collect();
        assert_eq!(counts, expected, "{sizes:?}");
        let kept: Vec<_> = batches.iter().flatten().map(|content| content.body.len()).collect();
        assert_eq!(kept, sizes);
    }

    #[test]
    fn batches_are_cut_by_count_and_by_bytes() {
        check(&[], &[]);
        check(&[1; 21], &[10, 10, 1]);
        check(&[MOST_BYTES, MOST_BYTES], &[1, 1]);
        check(&[MOST_BYTES / 2, MOST_BYTES / 2, 1], &[2, 1]);
        // SQS refuses it by itself; nobody else must suffer for it.
        check(&[1, MOST_BYTES + 1, 1], &[1, 1, 1]);
    }
}
