//! Turns X-Ray's trace header into W3C's.

use shared::JobId;
use shared::telemetry::trace_part;

/// The `traceparent` of the trace that an X-Ray `header` names; `None` where it
/// names none.
///
/// `Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1`
/// is `00-5759e988bd862e3fe1be46a994272793-53995c3f42cd8ad8-01`. A trace that
/// has no parent yet gets one that is made of the job's id, since W3C asks for one.
pub(super) fn traceparent(header: &str, job_id: JobId) -> Option<String> {
    let part = |name: &str| trace_part(header, name).map(str::to_ascii_lowercase);
    let root = part("Root")?;
    let (time, number) = root.strip_prefix("1-")?.split_once('-')?;
    if !is_hex(time, 8) || !is_id(number, 24) {
        return None;
    }
    let job_id = job_id.to_string().replace('-', "");
    let own = job_id.get(16..)?.to_owned();
    let parent = part("Parent").filter(|parent| is_id(parent, 16)).unwrap_or(own);
    let flags = if part("Sampled").as_deref() == Some("1") { "01" } else { "00" };
    Some(format!("00-{time}{number}-{parent}-{flags}"))
}

/// Zeros alone name nothing.
fn is_id(text: &str, digits: usize) -> bool {
    is_hex(text, digits) && text.bytes().any(|byte| byte != b'0')
}

fn is_hex(text: &str, digits: usize) -> bool {
    text.len() == digits && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOT: &str = "Root=1-5759e988-bd862e3fe1be46a994272793";

    fn check(header: &str, expected: Option<&str>) {
        let id = "0198f7a2-4c1e-7d3a-9b5f-2e8c6a1d4f70".parse().unwrap();
        assert_eq!(traceparent(header, id).as_deref(), expected, "{header}");
    }

    #[test]
    fn a_trace_is_carried_on() {
        let trace = "00-5759e988bd862e3fe1be46a994272793";
        check(
            &format!("{ROOT};Parent=53995c3f42cd8ad8;Sampled=1"),
            Some(&format!("{trace}-53995c3f42cd8ad8-01")),
        );
        check(
            &format!("Self=1-x; {ROOT} ;Parent=53995C3F42CD8AD8;Sampled=0;Lineage=1:a:0"),
            Some(&format!("{trace}-53995c3f42cd8ad8-00")),
        );
        check(ROOT, Some(&format!("{trace}-9b5f2e8c6a1d4f70-00")));
        check(
            &format!("{ROOT};Parent=0000000000000000;Sampled=?"),
            Some(&format!("{trace}-9b5f2e8c6a1d4f70-00")),
        );
    }

    #[test]
    fn what_names_no_trace_makes_none() {
        for header in [
            "",
            "Root",
            "Root=1-5759e988",
            "Root=2-5759e988-bd862e3fe1be46a994272793",
            "Root=1-5759e988-bd862e3fe1be46a99427279",
            "Root=1-5759e98x-bd862e3fe1be46a994272793",
            "Root=1-5759e988-000000000000000000000000",
            "Root=1-5759e988-bd862e3fe1be46a994272793-1",
            "Parent=53995c3f42cd8ad8;Sampled=1",
        ] {
            check(header, None);
        }
    }
}
