//! Jobs that go in one request.

use super::problem::Problem;

/// The most jobs that the API takes at once.
const MAX_JOBS: usize = 500;

/// Lambda takes requests of 6 MiB, as JSON in which the body is one string.
const MAX_BYTES: usize = 5 * 1024 * 1024;

/// A line of the input, as a job or as what is wrong with it.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) number: u64,
    pub(super) job: Result<String, Problem>,
}

/// Lines whose jobs go together, in their order.
#[derive(Debug, Default)]
pub(super) struct Chunk {
    pub(super) lines: Vec<Line>,
    bytes: usize,
}

impl Chunk {
    /// Whether the line must go with the next ones instead.
    pub(super) fn is_full_for(&self, line: &Line) -> bool {
        !self.lines.is_empty()
            && (self.lines.len() == MAX_JOBS || self.bytes + line.size() > MAX_BYTES)
    }

    pub(super) fn push(&mut self, line: Line) {
        self.bytes += line.size();
        self.lines.push(line);
    }
}

impl Line {
    /// The job's bytes within a JSON string, which escapes some of them.
    fn size(&self) -> usize {
        let Ok(job) = &self.job else { return 0 };
        let is_escaped = |byte: &u8| matches!(byte, b'"' | b'\\' | 0..0x20);
        job.len() + job.bytes().filter(is_escaped).count() + 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many jobs go in each request.
    fn chunks(jobs: impl Iterator<Item = String>) -> Vec<usize> {
        let (mut chunk, mut counts) = (Chunk::default(), Vec::new());
        for (job, number) in jobs.zip(1..) {
            let line = Line { number, job: Ok(job) };
            if chunk.is_full_for(&line) {
                counts.push(std::mem::take(&mut chunk).lines.len());
            }
            chunk.push(line);
        }
        counts.push(chunk.lines.len());
        counts
    }

    #[test]
    fn small_jobs_go_by_five_hundred() {
        assert_eq!(chunks((0..1001).map(|_| "{}".to_owned())), [500, 500, 1]);
    }

    #[test]
    fn large_jobs_go_in_requests_that_lambda_takes() {
        let plain = "x".repeat(1024 * 1024 - 1);
        assert_eq!(chunks((0..6).map(|_| plain.clone())), [5, 1]);
        let escaped = "\"".repeat(1024 * 1024);
        assert_eq!(chunks((0..5).map(|_| escaped.clone())), [2, 2, 1]);
        // What fits nowhere goes alone, and the API says so.
        let huge = "\"".repeat(3 * 1024 * 1024);
        assert_eq!(chunks((0..2).map(|_| huge.clone())), [1, 1]);
    }
}
